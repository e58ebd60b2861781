"""What all requests of a gateway share."""

from dataclasses import dataclass, field
from functools import cached_property

from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.events import Streams
from holdfast.gateway.health import Checks, Faults, Inspection
from holdfast.gateway.keys import KeyFile
from holdfast.gateway.problems import ForbiddenError
from holdfast.gateway.pulse import Pulses
from holdfast.gateway.standings import Standings
from holdfast.gateway.tenants import Tenant
from holdfast.gateway.uploads import Uploads
from holdfast.runtime.hold import Hold


@dataclass(frozen=True)
class Shared:
    """The sessions behind the gateway, and what is open at its front."""

    hold: Hold
    bounds: GatewayBounds
    # The models that a session may ask for.
    models: tuple[str, ...]
    keys: KeyFile | None
    streams: Streams
    uploads: Uploads
    # The key that is served what is about all keys.
    operator: str = "operator"
    # What changed of sessions; whoever sees them change tells it.
    pulses: Pulses = field(default_factory=Pulses)
    # What failed lately, how to look at the store from outside, and what was found so.
    faults: Faults = field(default_factory=Faults)
    inspection: Inspection | None = None
    checks: Checks = field(default_factory=Checks)
    tenants: dict[str, Tenant] = field(default_factory=dict)

    @cached_property
    def standings(self) -> Standings:
        """Where sessions stand, for lists."""
        return Standings(self.hold.engine.store)

    def tenant(self, name: str) -> Tenant:
        """Return a tenant by the name of its key."""
        found = self.tenants.get(name)
        if found is None:
            found = self.tenants[name] = Tenant(name, self.bounds)
        return found

    def is_operator(self, tenant: Tenant) -> bool:
        """Whether somebody may know what is about all keys. Without keys everybody may."""
        return tenant.name in {"", self.operator}

    def check_operator(self, tenant: Tenant, what: str) -> None:
        """Raise where something is about all keys and somebody else than the operator asks."""
        if not self.is_operator(tenant):
            raise ForbiddenError(f"{what} are about all keys; they are served to the key named {self.operator!r}")
