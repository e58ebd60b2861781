"""Task lists of any agent."""

import pytest

from holdfast.core.compaction.digest import remember
from holdfast.core.compaction.facts import Passage
from holdfast.core.compaction.memory.state import Memory
from tests.core.passages import answered, calling, edited, returned, said


def tasks_of(memory: Memory) -> list[tuple[str, str]]:
    return [(task.text, task.status.value) for listed in memory.tasks.values() for task in listed]


@pytest.mark.parametrize(
    ("calls", "tasks"),
    [
        (
            [
                (
                    "TodoWrite",
                    {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]},
                )
            ],
            [("a", "done"), ("b", "open")],
        ),
        (
            [("update_plan", {"plan": [{"step": "read", "status": "in_progress"}], "explanation": "so"})],
            [("read", "in progress")],
        ),
        (
            [
                ("TaskCreate", {"subject": "write tests", "description": "all"}),
                ("TaskCreate", {"subject": "run them"}),
                ("TaskUpdate", {"taskId": "1", "status": "completed"}),
                ("TaskUpdate", {"taskId": "2", "subject": "run them all"}),
                ("TaskUpdate", {"taskId": "9", "status": "completed"}),
            ],
            [("write tests", "done"), ("run them all", "open")],
        ),
        (
            [
                ("todo_write", {"todos": [{"id": 1, "content": "a"}, {"id": 2, "content": "b"}]}),
                ("todo_write", {"merge": True, "todos": [{"id": 1, "status": "done"}]}),
            ],
            [("a", "done"), ("b", "open")],
        ),
        ([("task_progress", {"progress": "- [x] one\n- [ ] two"})], [("one", "done"), ("two", "open")]),
        ([("update_plan", {"plan": ["just", "words"], "n": [{"x": 1}]})], []),
        (
            [("write", {"path": "PLAN.md", "content": "# Plan\n- [ ] one\n- [~] two\n"})],
            [("one", "open"), ("two", "in progress")],
        ),
        (
            [
                ("write", {"path": "PLAN.md", "content": "1. [ ] one\n2. [ ] two\n"}),
                ("edit", {"path": "PLAN.md", "old_string": "- [ ] one", "new_string": "- [x] one"}),
            ],
            [("one", "done"), ("two", "open")],
        ),
        ([("edit", {"path": "a.md", "new_string": "- [ ] an example"})], []),
    ],
)
def test_task_lists_of_any_agent_are_kept(
    calls: list[tuple[str, dict[str, object]]], tasks: list[tuple[str, str]]
) -> None:
    passages: list[Passage] = []
    for place, (name, arguments) in enumerate(calls):
        passages += [calling(2 * place, name, arguments), returned(2 * place + 1, "ok")]
    assert tasks_of(remember(passages)) == tasks


def test_a_check_list_in_a_message_is_a_task_list() -> None:
    memory = remember([answered(1, "The plan:\n- [x] look\n- [ ] leap\n"), said(2, "a [ ] box and a [x] in prose")])
    assert tasks_of(memory) == [("look", "done"), ("leap", "open")]


def test_only_the_newest_lists_are_kept() -> None:
    memory = remember([p for n in range(9) for p in edited(2 * n, "write", path=f"{n}.md", content="- [ ] a\n- [ ] b")])
    assert list(memory.tasks) == [f"{n}.md" for n in range(3, 9)]
