"""Servers to test against.

`real` is `quern serve` on the checkpoint QUERN_MODEL (a tiny random model will do: its text is gibberish, its API is
not); `scripted` is the same HTTP server over an engine that says what the prompt asks for (fake-quern-server), for
answers no random model gives: tool calls, reasoning, long streams, failures.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.request

import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_S = 120


class Server:
    """A running server and ways to talk to it."""

    def __init__(self, command, ready_pattern, **env):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **env})
        self.port = None
        for line in self.process.stdout:
            found = re.search(ready_pattern, line)
            if found:
                self.port = int(found.group(1))
                break
        assert self.port is not None, f"{command[0]} ended before it was ready"
        # Nobody reads the rest, so nothing may wait in the pipe.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.port}"
        self._wait_until_ready()

    def _wait_until_ready(self):
        end = time.monotonic() + START_S
        while True:
            try:
                with urllib.request.urlopen(self.url + "/ready", timeout=5) as answer:
                    assert answer.status == 200
                    return
            except OSError:
                assert time.monotonic() < end, "not ready in time"
                time.sleep(0.05)

    def client(self, **options):
        return openai.OpenAI(base_url=self.url + "/v1", **{"api_key": "none", "max_retries": 0, "timeout": 60, **options})

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def metric(self, name):
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(name + r"[ {]", line))

    def wait_for_metric(self, name, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition(self.metric(name)):
            assert time.monotonic() < end, f"{name} stayed at {self.metric(name)}"
            time.sleep(0.02)

    def terminate(self):
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def start_real(*flags):
    return Server([os.environ["QUERN_BINARY"], "serve", os.environ["QUERN_MODEL"], "--port", "0", *flags],
                  r"ready at http://127\.0\.0\.1:(\d+)")


def start_scripted(*flags):
    return Server([os.environ["QUERN_FAKE_SERVER"], str(ROOT / "tests/data/tokenizer/tokenizer.json"),
                   str(ROOT / "tests/data/chat/glm-5.2.jinja"), *flags], r"listening on (\d+)")


@pytest.fixture(scope="session")
def real():
    server = start_real()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def scripted():
    server = start_scripted()
    yield server
    server.kill()


def say(text, *directives):
    """A message that makes the scripted engine answer with `text` (from inside its reasoning)."""
    return "[[say]]" + text.replace("</", "<\\/") + "[[/say]]" + "".join(f"[[{d}]]" for d in directives)
