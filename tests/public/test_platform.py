import subprocess
import sys

# Without the module, as on Windows: an entry of None makes Python raise ModuleNotFoundError.
_WITHOUT_FCNTL = "import sys; sys.modules['fcntl'] = None\n"


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _WITHOUT_FCNTL + code], capture_output=True, text=True, check=False)


def test_the_package_is_imported_without_posix_modules() -> None:
    ran = _run("import holdfast; print(holdfast.Text('hello').text)")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "hello\n", "")


def test_opening_without_posix_modules_says_what_is_needed() -> None:
    code = "try:\n    holdfast.ask('hello', store='x.db')\nexcept holdfast.UsageError as error:\n    print(error)"
    ran = _run(f"import holdfast\n{code}")
    assert ran.stdout == (
        "Holdfast needs Linux or another POSIX system: Python has no module 'fcntl' here, and locks between processes "
        "need it; on Windows, run it in WSL\n"
    )


def test_a_command_without_posix_modules_is_a_sentence() -> None:
    ran = _run("from holdfast.cli import main; sys.argv = ['holdfast', 'chat', 'hello', '--store', 'x.db']; main()")
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "on Windows, run it in WSL" in ran.stderr
