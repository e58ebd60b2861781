"""Simulated provider: a deterministic fake at the wire level.

It turns the bytes of a request into a status, headers and a body or stream, with configurable limits and faults. Its
replies depend only on the request, so it can test memory.
"""

from holdfast.models.fake.faults import FaultStep, parse_faults
from holdfast.models.fake.simulation import DEFAULT_LIMITS, SeenRequest, Simulation, SimulationTransport
from holdfast.models.fake.tokens import count_request, count_text

__all__ = [
    "DEFAULT_LIMITS",
    "FaultStep",
    "SeenRequest",
    "Simulation",
    "SimulationTransport",
    "count_request",
    "count_text",
    "parse_faults",
]
