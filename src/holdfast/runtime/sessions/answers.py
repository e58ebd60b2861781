"""Answers: the outcome of a turn, collected from its records."""

from typing import Generic, TypeVar

import msgspec

from holdfast.types.messages import Part, Reply, Usage, text_of
from holdfast.types.records import Logged, NoticePosted, ReplyRecorded, TurnEnded

Value = TypeVar("Value")


class Answer(msgspec.Struct, frozen=True):
    """The answer to a message: the model's last reply, with notices and cost."""

    # Its text.
    text: str
    # Its turn: the seq of the input.
    turn: int
    # The model that answered, by its own name.
    model: str
    # All parts of the reply: text and reasoning.
    parts: tuple[Part, ...]
    # Tokens of the last call, if the provider reported them.
    usage: Usage | None = None
    # Notices of the turn, such as recovery steps; usually none.
    notices: tuple[str, ...] = ()
    # Cost of all calls of the turn in US dollars; None if no price is known.
    cost_usd: float | None = None

    def __str__(self) -> str:
        return self.text


class OutputAnswer(Answer, Generic[Value], frozen=True, kw_only=True):
    """The answer to a message that was sent with `output=`, with its value."""

    output: Value

    def __str__(self) -> str:
        return self.text


class AnswerBuilder:
    """Collects an answer from the records of its turn."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        self._reply: Reply | None = None
        self._notices: list[str] = []
        self._cost: float | None = None

    def add(self, update: object) -> None:
        """Take a record of the turn; ignore anything else."""
        match update:
            case Logged(record=ReplyRecorded(reply=recorded)):
                self._reply = recorded
            case Logged(record=NoticePosted(sentence=sentence)):
                self._notices.append(sentence)
            case Logged(record=TurnEnded(cost_usd=paid)):
                self._cost = paid
            case _:
                pass

    def answer(self) -> Answer:
        """Return the answer of a turn that ended with one."""
        reply = self._reply
        assert reply is not None, "a turn that ended with an answer has a reply"
        text, notices = text_of(reply.parts), tuple(self._notices)
        return Answer(text, self._turn, reply.model, reply.parts, reply.usage, notices, self._cost)


def with_output(answer: Answer, output: Value) -> OutputAnswer[Value]:
    """Return an answer with its value."""
    fields = {name: getattr(answer, name) for name in Answer.__struct_fields__}
    return OutputAnswer(**fields, output=output)
