"""What all requests of a gateway share."""

from dataclasses import dataclass, field

from holdfast.gateway.bounds import GatewayBounds
from holdfast.gateway.events import Streams
from holdfast.gateway.keys import KeyFile
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
    tenants: dict[str, Tenant] = field(default_factory=dict)

    def tenant(self, name: str) -> Tenant:
        """Return a tenant by the name of its key."""
        return self.tenants.setdefault(name, Tenant(name, self.bounds))
