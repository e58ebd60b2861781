"""Check everything about a release but the upload: `python -m tests.release [--repository URL]`.

Builds the wheel and the sdist from the committed files, checks their content and how an index renders it, installs the
wheel into an empty environment with locked dependencies and into another as `pipx install` does, runs it and the demo
there, and writes a bill of materials. With a repository URL the links of the README become
absolute and the metadata names it; without one the archives are for tests only, and it says so.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from tests.house.places import ROOT
from tests.release.checks import absolute_links, changelog_problem, metadata_problems, sdist_problems, wheel_problems
from tests.release.materials import bill_of_materials, vendored

_DIST = ROOT / "dist"


def main() -> int:
    """Build, check and report; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--repository", default="", metavar="URL", help="where the source of this release is")
    repository = parser.parse_args().repository.rstrip("/")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    problems = [changelog_problem(version, (ROOT / "CHANGELOG.md").read_text())] if repository else []
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        export(tree)
        if repository:
            name_repository(tree, repository, version)
        wheel, sdist = build(tree, _DIST)
        problems += [*wheel_problems(wheel), *sdist_problems(sdist), *metadata_problems(wheel, repository)]
        problems += installed_problems(wheel, Path(place) / "venv", version)
        problems += demo_problems(wheel, Path(place) / "pipx")
        problems += index_problems([wheel, sdist], Path(place) / "twine")
    bill = bill_of_materials(version, (ROOT / "requirements/run.txt").read_text(), vendored())
    (_DIST / f"holdfast-{version}.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
    sys.stdout.write("".join(f"{path.name}: {path.stat().st_size:,} bytes\n" for path in sorted(_DIST.iterdir())))
    found = [problem for problem in problems if problem]
    sys.stdout.write("".join(f"problem: {problem}\n" for problem in found))
    if not repository:
        sys.stdout.write("without --repository the archives are for tests only: README links stay relative\n")
    return 1 if found else 0


def export(tree: Path) -> None:
    """Copy the committed files, as they are in the work tree."""
    git = shutil.which("git") or "git"
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def name_repository(tree: Path, repository: str, version: str) -> None:
    """Make the links of the README absolute, and name the repository in the metadata."""
    readme, settings = tree / "README.md", tree / "pyproject.toml"
    readme.write_text(absolute_links(readme.read_text(), repository, f"v{version}"))
    urls = {"Source": "", "Documentation": f"/blob/v{version}/docs", "Changelog": f"/blob/v{version}/CHANGELOG.md"}
    urls["Issues"] = "/issues"
    lines = "".join(f'{name} = "{repository}{path}"\n' for name, path in urls.items())
    settings.write_text(settings.read_text() + f"\n[project.urls]\n{lines}")


def build(tree: Path, dist: Path) -> tuple[Path, Path]:
    """Build the wheel and the sdist into an empty folder."""
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    for hook in ("build_wheel", "build_sdist"):
        code = f"import uv_build; uv_build.{hook}({str(dist)!r})"
        # The backend looks for its program on the path.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=tree,
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PATH": path},
        )
    return next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))


def installed_problems(wheel: Path, place: Path, version: str) -> list[str]:
    """Install the wheel with its locked dependencies into an empty environment, and use it."""
    venv.create(place, with_pip=True)
    pip = [str(place / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", str(ROOT / "requirements/run.txt")], check=True)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    store = str(place / "store.db")
    problems = []
    for command, expected in (
        (["--version"], f"holdfast, version {version}"),
        (["chat", "remember harbour = Kiel", "--store", store], "I will remember that harbour = Kiel."),
        (["chat", "what is harbour?", "--store", store], "harbour = Kiel."),
    ):
        ran = subprocess.run(
            [str(place / "bin/holdfast"), *command], cwd=place, capture_output=True, text=True, check=False
        )
        if ran.returncode or expected not in ran.stdout:
            problems.append(f"`holdfast {' '.join(command)}` in a new environment printed {ran.stdout + ran.stderr!r}")
    return problems


def demo_problems(wheel: Path, place: Path) -> list[str]:
    """Install the wheel as `pipx install` does, with the newest dependencies that it allows, and run the demo."""
    install(place, str(wheel))
    ran = subprocess.run(
        [str(place / "bin/holdfast"), "demo", "--fast", "--json"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    return [f"`holdfast demo` of a new install ended with {ran.returncode}: {ran.stderr}"] if ran.returncode else []


def index_problems(archives: list[Path], place: Path) -> list[str]:
    """Check that an index renders the description of the archives."""
    install(place, "twine")
    ran = subprocess.run(
        [str(place / "bin/twine"), "check", "--strict", *map(str, archives)],
        capture_output=True,
        text=True,
        check=False,
    )
    return [f"twine check: {ran.stdout + ran.stderr}"] if ran.returncode else []


def install(place: Path, what: str) -> None:
    """Install something into an empty environment."""
    venv.create(place, with_pip=True)
    pip = [str(place / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, what], check=True)


if __name__ == "__main__":
    sys.exit(main())
