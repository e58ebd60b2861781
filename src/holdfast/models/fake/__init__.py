"""The simulated model: a deterministic stand-in for a provider, at the level of the wire.

It takes the bytes of a request in a dialect and gives a status, headers and a body or a stream, within limits and with
failures that can be set. All it knows is what stands in the request, so a test of memory with it is honest.
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
