"""Changed files, and the commits that take them."""

import pytest

from holdfast.core.compaction.digest import remember
from holdfast.core.compaction.facts import Passage
from holdfast.types.messages import Message, Role, Text, ToolOutcome
from tests.core.passages import answered, called, edited, ran, returned

PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: src/b.py\n+z\n*** End Patch"
DIFF = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n--- a/gone\n+++ /dev/null\n" + "x" * 300
TWO = [*edited(1, "write", path="/r/src/a.py"), *edited(3, "write", path="/r/b.py")]


@pytest.mark.parametrize(
    ("passages", "changed"),
    [
        (edited(1, "Edit", file_path="/r/a.py", old_string="x", new_string="y"), ["/r/a.py"]),
        (edited(1, "NotebookEdit", notebook_path="n.ipynb"), ["n.ipynb"]),
        (edited(1, "Edit", "String to replace not found", file_path="a.py"), ["a.py"]),
        (edited(1, "edit", "Error: could not find the text", path="a.py"), []),
        (edited(1, "str_replace_editor", command="str_replace", path="/r/a.py", old_str="x", new_str="y"), ["/r/a.py"]),
        (edited(1, "str_replace_editor", command="view", path="/r/a.py"), []),
        (edited(1, "multi_edit", edits=[{"path": "a.py"}, {"path": "b.py"}, 3]), ["b.py", "a.py"]),
        (edited(1, "read_file", path="a.py"), []),
        (edited(1, "apply_patch", input=PATCH + "\n" * 300), ["src/a.py", "src/b.py"]),
        (edited(1, "apply_diff", diff=DIFF), ["src/a.py"]),
        (ran(1, ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]), ["src/a.py", "src/b.py"]),
        (ran(1, ["git", "mv", "a.py", "b.py"]), ["b.py"]),
        (ran(1, "cat > src/new.py <<'EOF'\nimport os > x.txt\nEOF"), ["src/new.py"]),
        (ran(1, "make > /dev/null 2>&1; echo 'a > b.txt'; cp a.py /tmp/a.py"), []),
        (ran(1, "sed -i 's/a/b/' src/a.py && mv c.py d.py | tee -a log.txt"), ["src/a.py", "d.py", "log.txt"]),
        (ran(1, "sed -i -e 's/a.b/c d/'"), []),
        (ran(1, "echo x > a.py", "denied", ToolOutcome.FAILED), []),
        ([answered(1, "src/a.py\n```python\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```")], ["src/a.py"]),
    ],
)
def test_a_changed_file_is_known_however_it_was_changed(passages: list[Passage], changed: list[str]) -> None:
    assert list(remember(passages).changed) == changed


@pytest.mark.parametrize(
    ("command", "left", "message"),
    [
        ("git add -A && git commit -m 'Fix; the parser'", [], "Fix; the parser"),
        ('git add src/a.py && git commit -m "Fix it"', ["/r/b.py"], "Fix it"),
        ("git add src && git commit -m fix", ["/r/b.py"], "fix"),
        ("git add src/a.py; git commit -am fix", [], "fix"),
        ("git commit -m \"$(cat <<'EOF'\nFrom a document\n\nmore\nEOF\n)\"", [], "From a document"),
        ("git add src/a.py && git commit --amend --no-edit", ["/r/b.py"], None),
        ("git commit --amend -m 'Fix both'", [], "Fix both"),
        ("git restore src/a.py", ["/r/b.py"], None),
        ("git checkout -- .", [], None),
        ("git reset --hard", [], None),
        ("git stash", [], None),
        ("git status", ["/r/src/a.py", "/r/b.py"], None),
        ("git", ["/r/src/a.py", "/r/b.py"], None),
    ],
)
def test_a_commit_takes_the_files_that_it_commits(command: str, left: list[str], message: str | None) -> None:
    memory = remember([*TWO, *ran(5, command)])
    assert list(memory.changed) == left
    assert [commit.text for commit in memory.commits] == ([] if message is None else [message])


def test_a_commit_that_failed_takes_none() -> None:
    assert len(remember([*TWO, *ran(5, "git commit -am x", "hook failed", ToolOutcome.FAILED)]).changed) == 2


def test_a_commit_that_an_agent_reports_takes_all() -> None:
    report = Passage(5, Message(Role.TOOL, (Text("Applied edit to b.py\nCommit 1a2b3c4d fix: the parser\nmore"),)))
    memory = remember([*TWO, report])
    assert (memory.changed, [one.text for one in memory.commits]) == ({}, ["Commit 1a2b3c4d fix: the parser"])


def test_a_commit_in_a_scratch_folder_leaves_the_changed_files() -> None:
    edit = [called(1, "edit", path="src/a.py"), returned(2, "ok")]
    elsewhere = ran(3, "mkdir -p /tmp/try && cd /tmp/try && git init && git add -A && git commit -m first", "ok")
    here = ran(5, "cd /srv/shop && git add -A && git commit -m second", "ok")
    assert remember([*edit, *elsewhere]).changed == {"src/a.py": 1}
    assert remember([*edit, *elsewhere, *here]).changed == {}


@pytest.mark.parametrize(
    ("opening", "closing"), [("```python", "```"), ("<source>python", "</source>"), ("````", "````")]
)
def test_a_block_names_its_file_in_any_fence_and_its_code_is_not_told(opening: str, closing: str) -> None:
    block = "<<<<<<< SEARCH\nwriter = get_writer(kwargs, fast=1)\n=======\nreturn header_lines + lines\n>>>>>>> REPLACE"
    text = f"The writer drops the header rows.\n\nsrc/ui.py\n{opening}\n{block}\n{closing}\n"
    memory = remember([answered(1, text)])
    assert list(memory.changed) == ["src/ui.py"]
    assert not any("get_writer" in event.text for event in memory.events)
    assert any("drops the header rows" in event.text for event in memory.events)
