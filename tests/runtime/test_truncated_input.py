"""A model that reports less than it reads: nothing is done about it, and every answer is kept."""

from holdfast.core.limits.bounds import Bounds
from holdfast.core.limits.sizing import tokens_of_request
from holdfast.runtime.sessions.session import Session
from holdfast.testing.builders import a_message
from holdfast.testing.engines import FunctionModel, a_hold, an_engine
from holdfast.types.messages import Reply, Request, Usage
from holdfast.types.records import AttemptFailed, CompactionApplied

BOUNDS = Bounds(compacts_ahead=False)
LONG = "the ship keeps its course while the wind turns. " * 400


def counts_a_third(request: Request) -> Reply:
    """Answer, and report a third of what was read, as some gateways do."""
    return a_message("aye", usage=Usage(tokens_of_request(request) // 3, 1))


async def suspicions(session: Session) -> int:
    records = await session.history(limit=10_000)
    return sum(isinstance(logged.record, AttemptFailed) for logged in records)


async def test_a_model_that_reports_less_than_it_reads_is_not_suspected_and_always_answers() -> None:
    """FM-012, FM-016: a wrong count that grows with the request costs nothing."""
    engine = an_engine(FunctionModel(counts_a_third), bounds=BOUNDS)
    async with a_hold(engine) as hold:
        session, other = await hold.session("one"), await hold.session("two")

        answers = [await session.send(f"{number} {LONG}") for number in range(4)]
        answers += [await other.send(f"{number} {LONG}") for number in range(3)]

        assert {answer.text for answer in answers} == {"aye"}
        assert (await suspicions(session), await suspicions(other)) == (0, 0)


async def test_where_nothing_can_be_made_smaller_a_suspect_answer_is_taken() -> None:
    """FM-016."""
    model = FunctionModel(counts_a_third)
    engine = an_engine(model, bounds=BOUNDS)
    async with a_hold(engine) as hold:
        session = await hold.session("one", system=LONG)

        answer = await session.send("hello")

        assert answer.text == "aye"
        records = [logged.record for logged in await session.history(limit=1_000)]
        assert not any(isinstance(record, CompactionApplied) for record in records)
        assert len(model.requests) == 1
