"""HTTP: the server, authentication, events, metrics and the page."""
