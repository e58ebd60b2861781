"""Task lists of agents: calls that write or update them, and Markdown check lists in messages and files.

Agents differ in names, not in form: a list of objects with a text and a status, one object per call with an id, or
lines that begin with `[ ]` or `[x]`.
"""

import re
from collections.abc import Mapping, Sequence

from holdfast.core.compaction.memory.quotes import one_line
from holdfast.core.compaction.memory.state import Memory, Task, TaskStatus

# Names of tools that keep a list: TodoWrite, todo_write, update_plan, TaskCreate, manage_todo_list, write_todos.
_LIST_TOOL = re.compile(r"todo|plan|task|checklist", re.IGNORECASE)
_TEXT_KEYS = ("content", "step", "subject", "title", "text", "task", "name", "description")
_STATUS_KEYS = ("status", "state", "done", "completed", "checked")
_ID_KEYS = ("id", "taskId", "task_id", "todoId")
_DONE = re.compile(r"(?:complete|done|finish|close|resolve|delete|cancel|skip|remove|true|x$)", re.IGNORECASE)
_ACTIVE = re.compile(r"(?:in[_ -]?progress|active|doing|started|current|working)", re.IGNORECASE)
_CREATES, _UPDATES = (
    re.compile(r"create|add|new", re.IGNORECASE),
    re.compile(r"update|set|edit|complete", re.IGNORECASE),
)
_CHECK_LINE = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+\[([ xX~/-])\][ \t]+(\S[^\n]*)$", re.MULTILINE)
# A single box is an example of one.
_BOXES_MIN = 2
_TASKS_MAX, _LISTS_MAX, _TASK_CHARS = 60, 6, 200
# The list of single tasks, and the one in messages.
CREATED, _IN_MESSAGES = "tasks", "messages"


def observe_call(memory: Memory, seq: int, name: str, arguments: Mapping[str, object]) -> bool:
    """Update the task lists by a call; return whether the call is one of a list tool."""
    if _LIST_TOOL.search(name) is None:
        return False
    for value in arguments.values():
        if isinstance(value, list) and (listed := _tasks_of(value, seq)):
            _write(memory, name, listed, merges=bool(arguments.get("merge")))
            return True
        if isinstance(value, str) and (boxes := check_list(value, seq)):
            _write(memory, name, boxes, merges=False)
            return True
    return _observe_single(memory, seq, name, arguments)


def _observe_single(memory: Memory, seq: int, name: str, arguments: Mapping[str, object]) -> bool:
    """Update one task by a call that creates or changes it."""
    tasks = memory.tasks.get(CREATED, [])
    key, text = _first(arguments, _ID_KEYS), _first(arguments, _TEXT_KEYS)
    known = next((task for task in tasks if key and task.key == key), None)
    if known is not None and (_UPDATES.search(name) or _first(arguments, _STATUS_KEYS)):
        known.text = one_line(text, _TASK_CHARS) or known.text
        status = _first(arguments, _STATUS_KEYS)
        known.status, known.seq = (_status(status) if status else known.status), seq
        return True
    if text and _CREATES.search(name):
        memory.tasks_created += 1
        created = Task(key or str(memory.tasks_created), one_line(text, _TASK_CHARS), TaskStatus.OPEN, seq)
        _write(memory, CREATED, [created], merges=True)
        return True
    return False


def observe_text(memory: Memory, seq: int, source: str, text: str) -> None:
    """Update the task lists by a text with check boxes: a message, or the new content of a file."""
    if "[ ]" in text or "[x]" in text or "[X]" in text:
        boxes = check_list(text, seq)
        if len(boxes) >= _BOXES_MIN or (boxes and source in memory.tasks):
            _write(memory, source or _IN_MESSAGES, boxes, merges=bool(source))


def check_list(text: str, seq: int) -> list[Task]:
    """Return the tasks of a Markdown check list."""
    if "[" not in text:
        return []
    tasks: list[Task] = []
    for mark, line in _CHECK_LINE.findall(text):
        status = {" ": TaskStatus.OPEN, "~": TaskStatus.ACTIVE, "/": TaskStatus.ACTIVE, "-": TaskStatus.ACTIVE}
        short = one_line(line, _TASK_CHARS)
        tasks.append(Task(short, short, status.get(mark, TaskStatus.DONE), seq))
    return tasks


def _tasks_of(listed: Sequence[object], seq: int) -> list[Task]:
    tasks: list[Task] = []
    for entry in listed[:_TASKS_MAX]:
        if not isinstance(entry, dict):
            return []
        text = one_line(_first(entry, _TEXT_KEYS), _TASK_CHARS)
        status = _first(entry, _STATUS_KEYS)
        if not text and not _first(entry, _ID_KEYS):
            return []
        tasks.append(Task(_first(entry, _ID_KEYS) or text, text, _status(status), seq))
    return tasks


def _write(memory: Memory, name: str, tasks: list[Task], *, merges: bool) -> None:
    """Replace a list, or merge tasks into it by their keys; the newest list is last."""
    before = memory.tasks.pop(name, [])
    if merges:
        known = {task.key: task for task in before}
        for task in tasks:
            old = known.get(task.key)
            known[task.key] = task if task.text or old is None else Task(task.key, old.text, task.status, task.seq)
        tasks = list(known.values())
    memory.tasks[name] = tasks[-_TASKS_MAX:]
    while len(memory.tasks) > _LISTS_MAX:
        del memory.tasks[next(iter(memory.tasks))]


def _first(arguments: Mapping[str, object], keys: Sequence[str]) -> str:
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, str | int) and str(value):
            return str(value)
    return ""


def _status(status: str) -> TaskStatus:
    if _ACTIVE.match(status):
        return TaskStatus.ACTIVE
    return TaskStatus.DONE if _DONE.match(status) else TaskStatus.OPEN
