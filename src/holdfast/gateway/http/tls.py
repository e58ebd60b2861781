"""TLS of the listener: a certificate and its key in PEM files, read again on reload.

A context is changed in place: new handshakes use the new certificate, and open connections stay.
"""

import ssl
from pathlib import Path

from holdfast.errors import UsageError


def tls_context(certificate: str, key: str) -> ssl.SSLContext | None:
    """Return the context of a certificate and its key; None without them. Raises `UsageError` for unusable files."""
    if not certificate and not key:
        return None
    if not certificate or not key:
        missing = "tls_key" if certificate else "tls_certificate"
        raise UsageError(f"gateway.{missing} is not set; TLS needs both gateway.tls_certificate and gateway.tls_key")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_certificate(context, certificate, key)
    return context


def load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load a certificate chain and its key into a context."""
    for name, path in (("tls_certificate", certificate), ("tls_key", key)):
        try:
            Path(path).expanduser().read_bytes()
        except OSError as error:
            raise UsageError(
                f"gateway.{name}: cannot read {path} ({error.strerror}); check the path and its permissions"
            ) from error
    try:
        # An encrypted key would ask for its password on the terminal.
        context.load_cert_chain(Path(certificate).expanduser(), Path(key).expanduser(), password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(
            f"gateway.tls_certificate {certificate} and gateway.tls_key {key} do not make a pair "
            f"({getattr(error, 'reason', None) or error}); use PEM files: the chain, and its key without a password"
        ) from error
