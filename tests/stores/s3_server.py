"""A server that speaks S3 on a free port of this machine, for as long as a test needs it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from unittest import mock

from moto.server import ThreadedMotoServer

BUCKET = "holdfast-test"


@contextmanager
def s3_server() -> Iterator[str]:
    """Run a server with one bucket, known to clients by the usual environment variables; yield its address."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        settings = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test-secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint,
        }
        with mock.patch.dict(os.environ, settings):
            connection = HTTPConnection(host, port)
            connection.request("PUT", f"/{BUCKET}")
            assert connection.getresponse().read() is not None
            connection.close()
            yield endpoint
    finally:
        server.stop()
