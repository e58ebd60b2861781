"""The gateway: sessions, proxy endpoints and the page over HTTP."""
