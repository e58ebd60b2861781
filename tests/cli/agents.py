"""A provider, and agents of our own making that behave as real ones do, for tests of `holdfast run`."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.programs import PROGRAM, bounded, environment

# Sends each argument as a message to the address in its environment, and prints the answers.
_AGENT = """\
#!{python}
import json, os, signal, sys, time, urllib.error, urllib.request

BASE = os.environ["ANTHROPIC_BASE_URL"]

def send(text):
    body = {{"model": "model-1", "max_tokens": 100, "messages": [{{"role": "user", "content": text}}]}}
    headers = {{"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "test-key"}}
    request = urllib.request.Request(BASE + "/v1/messages", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["content"][0]["text"]

def gateway():
    port = BASE.rpartition(":")[2].encode()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = open(f"/proc/{{name}}/cmdline", "rb").read().split(b"\\0")
            except OSError:
                continue
            if b"serve" in words and port in words:
                return int(name)

def until_answered(text):
    for _ in range(1000):
        try:
            return send(text)
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)

{does}
"""


def make_agent(folder: Path, name: str, does: str) -> Path:
    """Write an agent program that runs these statements, and return its folder for the PATH."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(_AGENT.format(python=sys.executable, does=does), "utf-8")
    path.chmod(0o755)
    return folder


@contextmanager
def provider(*options: str) -> Iterator[str]:
    """Serve the simulated model in a process of its own, and yield its address."""
    program = subprocess.Popen([*PROGRAM, "sim", *options], stdout=subprocess.PIPE, env=environment())
    with bounded(program):
        assert program.stdout is not None
        line = program.stdout.readline().decode()
        yield next(word for word in line.split() if word.startswith("http://"))
