"""Runs the quern program as a user would: every command once, and what goes wrong first.

QUERN names the program, MODEL a small checkpoint. Standard library only.
"""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

QUERN = os.environ["QUERN"]
MODEL = os.environ["MODEL"]
TIMEOUT_S = 120


def run(*args, stdin=None, env=None):
    return subprocess.run([QUERN, *args], input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **(env or {})})


class Help(unittest.TestCase):
    def test_help_teaches_and_succeeds(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        for word in ("serve", "chat", "generate", "inspect", "Try first", "curl"):
            self.assertIn(word, done.stdout)
        self.assertEqual(done.stderr, "")

    def test_each_command_explains_itself(self):
        for command in ("serve", "chat", "generate", "inspect", "bench batch"):
            done = run(*command.split(), "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertIn("model", done.stdout.lower(), command)

    def test_version(self):
        done = run("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^quern \d+\.\d+\.\d+\n$")

    def test_usage_errors_are_2_and_go_to_stderr(self):
        for args in ([], ["no-such-command"], ["generate"], ["generate", MODEL], ["chat"], ["serve"],
                     ["serve", MODEL, "--port", "99999"], ["serve", MODEL, "--port", "http"],
                     ["generate", MODEL, "-p", "x", "--temperature", "-1"],
                     ["generate", MODEL, "-p", "x", "--no-such-flag"],
                     ["chat", MODEL, "--max-tokens", "0"], ["--log-level", "loud", "chat", MODEL]):
            done = run(*args)
            self.assertEqual(done.returncode, 2, args)
            self.assertEqual(done.stdout, "", args)
            self.assertNotEqual(done.stderr, "", args)


class Bench(unittest.TestCase):
    FLAGS = ("--streams", "1,3", "--drafts", "0,2,auto", "--runs", "1", "--input-len", "20", "--output-len", "12")

    def test_table_has_a_line_per_setting(self):
        done = run("bench", "batch", MODEL, *self.FLAGS)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in done.stdout.splitlines() if re.match(r" +\d+ +(\d|auto)", line)]
        self.assertEqual([line[:2] for line in lines],
                         [[s, d] for s in ("1", "3") for d in ("0", "2", "auto")])

    def test_json_is_consistent(self):
        done = run("bench", "batch", MODEL, *self.FLAGS, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        for row in json.loads(done.stdout)["rows"]:
            self.assertGreater(row["decode_tokens_per_second"], 0)
            self.assertGreater(row["bytes_per_second"], 0)
            low, high = row["decode_tokens_per_second_range"]
            self.assertTrue(low <= row["decode_tokens_per_second"] <= high)
            # Without drafts a step gives each stream one token.
            if row["drafts"] == "0":
                self.assertAlmostEqual(row["tokens_per_step_and_stream"], 1, delta=0.15)

    def test_prompts_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "prompts.jsonl"
            path.write_text('{"prompt": "Once upon"}\n{"messages": [{"role": "user", "content": "Hi"}]}\n')
            done = run("bench", "batch", MODEL, "--prompts", str(path), "--streams", "1", "--runs", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
            path.write_text('{"prompt": "Once"}\n{"text": 1}\n')
            done = run("bench", "batch", MODEL, "--prompts", str(path))
            self.assertEqual(done.returncode, 1)
            self.assertIn("prompts.jsonl:2", done.stderr)

    def test_wrong_drafts_are_named(self):
        done = run("bench", "batch", MODEL, "--drafts", "1,many")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--drafts many", done.stderr)


class BadModels(unittest.TestCase):
    def expect_failure(self, path, *words):
        for command in (["generate", path, "-p", "x"], ["chat", path], ["serve", path, "--port", "0"],
                        ["inspect", path]):
            done = run(*command, stdin="")
            self.assertEqual(done.returncode, 1, (command, done.stderr))
            # inspect tells a checkpoint's problems in its report, which is its result.
            told = done.stdout + done.stderr if command[0] == "inspect" else done.stderr
            for word in words:
                self.assertIn(word, told, command)

    def test_missing_path(self):
        self.expect_failure("/no/such/model", "/no/such/model")

    def test_directory_without_a_model(self):
        with tempfile.TemporaryDirectory() as empty:
            self.expect_failure(empty, empty, "config.json")

    def copy_of_model(self, directory):
        copy = pathlib.Path(directory) / "copy"
        shutil.copytree(MODEL, copy)
        return copy

    def test_broken_json(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = self.copy_of_model(directory)
            (copy / "config.json").write_text('{"model_type": ')
            self.expect_failure(str(copy), "config.json")

    def test_unknown_architecture(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = self.copy_of_model(directory)
            config = json.loads((copy / "config.json").read_text())
            config["model_type"] = "llama"
            (copy / "config.json").write_text(json.dumps(config))
            self.expect_failure(str(copy), "llama", "glm_moe_dsa")

    def test_truncated_weights_and_broken_tokenizer_are_told_together(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = self.copy_of_model(directory)
            shard = sorted(copy.glob("*.safetensors"))[0]
            data = shard.read_bytes()
            shard.write_bytes(data[: len(data) - 100])
            (copy / "tokenizer.json").write_text("{}")
            done = run("generate", str(copy), "-p", "x")
            self.assertEqual(done.returncode, 1)
            self.assertIn(shard.name, done.stderr)
            self.assertIn("tokenizer.json", done.stderr)

    def test_chat_without_template_points_to_generate(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = self.copy_of_model(directory)
            (copy / "chat_template.jinja").unlink()
            config_path = copy / "tokenizer_config.json"
            if config_path.exists():
                config = json.loads(config_path.read_text())
                config.pop("chat_template", None)
                config_path.write_text(json.dumps(config))
            done = run("chat", str(copy), stdin="hello\n")
            self.assertEqual(done.returncode, 1)
            self.assertIn("no chat template", done.stderr)
            self.assertIn("generate", done.stderr)
            self.assertEqual(run("generate", str(copy), "-p", "x", "--max-tokens", "2").returncode, 0)


class Generate(unittest.TestCase):
    def test_json_has_everything(self):
        done = run("generate", MODEL, "-p", "Hello there", "--json", "--max-tokens", "5", "--ignore-eos",
                   "--seed", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["prompt"], "Hello there")
        self.assertEqual(len(result["tokens"]), 5)
        self.assertEqual(result["finish_reason"], "length")
        self.assertEqual(result["seed"], 3)
        usage = result["usage"]
        self.assertGreater(usage["prompt_tokens"], 0)
        self.assertEqual(usage["completion_tokens"], 5)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 5)
        self.assertGreaterEqual(result["timings"]["total_ms"], result["timings"]["first_token_ms"])

    def test_same_seed_same_tokens_on_one_thread_or_two(self):
        def tokens(*flags):
            done = run("generate", MODEL, "-p", "Once upon a time", "--json", "--max-tokens", "12", "--ignore-eos",
                       *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["tokens"]

        one = tokens("--seed", "1", "--threads", "1")
        self.assertEqual(one, tokens("--seed", "1", "--threads", "2"))
        self.assertNotEqual(one, tokens("--seed", "2"))

    def test_prompt_from_stdin_and_plain_text_out(self):
        flags = ["--max-tokens", "6", "--temperature", "0"]
        from_stdin = run("generate", MODEL, "-p", "-", *flags, stdin="Hello")
        self.assertEqual(from_stdin.returncode, 0, from_stdin.stderr)
        from_flag = run("generate", MODEL, "-p", "Hello", *flags, "--json")
        self.assertEqual(from_stdin.stdout, json.loads(from_flag.stdout)["text"] + "\n")

    def test_empty_prompt_is_refused(self):
        done = run("generate", MODEL, "-p", "-", stdin="")
        self.assertEqual(done.returncode, 1)
        self.assertIn("prompt is empty", done.stderr)

    def test_chat_json_splits_reasoning(self):
        done = run("generate", MODEL, "--chat", "-p", "Hi", "--json", "--max-tokens", "4", "--no-think")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["reasoning"], "")
        self.assertIn("content", result)

    def test_more_than_fits_is_refused_with_numbers(self):
        done = run("generate", MODEL, "-p", "Hello", "--max-model-len", "32", "--max-tokens", "5000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("5000", done.stderr)
        self.assertIn("32", done.stderr)


class Chat(unittest.TestCase):
    FLAGS = ["--max-tokens", "6", "--temperature", "0", "--no-think"]

    def test_pipe_answers_line_by_line_without_ansi(self):
        done = run("chat", MODEL, *self.FLAGS, stdin="Hello\n/reset\n\nAnd now?\n/quit\nnever asked\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\033", done.stdout + done.stderr)
        self.assertNotIn(">", done.stderr.split("\n")[0])

    def test_reset_forgets(self):
        once = run("chat", MODEL, *self.FLAGS, stdin="Hello\n")
        twice = run("chat", MODEL, *self.FLAGS, stdin="Hello\n/reset\nHello\n")
        self.assertEqual(once.returncode, 0, once.stderr)
        self.assertEqual(twice.stdout, once.stdout * 2)

    def test_unknown_command_fails_in_a_pipe(self):
        done = run("chat", MODEL, *self.FLAGS, stdin="/nonsense\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonsense", done.stderr)


class Terminal:
    """quern on a pseudo-terminal, fed and read like one."""

    def __init__(self, *args, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(QUERN, [QUERN, *args], {**os.environ, "TERM": "xterm", **(env or {})})
        self.seen = ""
        self.read_to = 0

    def send(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text):
        """Waits for `text` in what is printed from here on; returns all up to it."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.seen.find(text, self.read_to) < 0:
            ready, _, _ = select.select([self.fd], [], [], deadline - time.monotonic())
            if not ready:
                raise AssertionError(f"no {text!r} in {self.seen[self.read_to:]!r}")
            try:
                chunk = os.read(self.fd, 65536)
            except OSError:  # the program has ended
                chunk = b""
            if not chunk:
                raise AssertionError(f"ended without {text!r}: {self.seen[self.read_to:]!r}")
            self.seen += chunk.decode(errors="replace")
        end = self.seen.find(text, self.read_to) + len(text)
        found = self.seen[self.read_to:end]
        self.read_to = end
        return found

    def exit_code(self):
        while True:
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class ChatOnATerminal(unittest.TestCase):
    def test_prompts_dims_reasoning_and_leaves_on_quit(self):
        terminal = Terminal("chat", MODEL, "--max-tokens", "8", "--temperature", "0", env={"NO_COLOR": ""})
        terminal.expect("> ")
        terminal.send("Hello\n")
        self.assertIn("\033[2m", terminal.expect("tok/s"))  # a random model never ends its reasoning
        terminal.expect("> ")
        terminal.send("/help\n")
        terminal.expect("/reset")
        terminal.send("/nonsense\n")
        terminal.expect("no such command")
        terminal.expect("> ")
        terminal.send("/quit\n")
        self.assertEqual(terminal.exit_code(), 0)

    def test_no_color_means_no_ansi(self):
        terminal = Terminal("chat", MODEL, "--max-tokens", "8", "--temperature", "0", env={"NO_COLOR": "1"})
        terminal.expect("> ")
        terminal.send("Hello\n")
        answer = terminal.expect("tok/s")
        self.assertIn("[reasoning]", answer)
        self.assertNotIn("\033[2m", answer)
        terminal.expect("> ")
        terminal.send("\x04")  # ctrl-D
        self.assertEqual(terminal.exit_code(), 0)

    def test_ctrl_c_stops_the_answer_not_the_chat(self):
        terminal = Terminal("chat", MODEL, "--ignore-eos", "--seed", "1")
        terminal.expect("> ")
        terminal.send("Hello\n")
        terminal.expect("\033[2m")  # the answer has begun
        terminal.send("\x03")
        terminal.expect("(stopped)")
        terminal.expect("> ")
        terminal.send("\x03")
        terminal.expect("ctrl-D or /quit leaves")
        terminal.send("/quit\n")
        self.assertEqual(terminal.exit_code(), 0)


class Inspect(unittest.TestCase):
    def test_text_and_json(self):
        done = run("inspect", MODEL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("expert", done.stdout)
        done = run("inspect", MODEL, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        json.loads(done.stdout)


class Serve(unittest.TestCase):
    def start(self, *flags, env=None):
        server = subprocess.Popen([QUERN, "serve", MODEL, "--port", "0", *flags], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.kill)
        for line in server.stdout:
            found = re.search(r"ready at (http://\S+)", line)
            if found:
                return server, found.group(1)
        self.fail("server did not start: " + server.stderr.read())

    def fetch(self, url, body=None, key=None):
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = "Bearer " + key
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.read().decode()

    def stop(self, server, how=signal.SIGTERM):
        server.send_signal(how)
        self.assertEqual(server.wait(timeout=TIMEOUT_S), 0)

    def test_answers_and_stops_on_sigterm(self):
        server, url = self.start()
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
        answer = json.loads(self.fetch(url + "/v1/chat/completions", body))
        self.assertEqual(answer["object"], "chat.completion")
        self.assertLessEqual(answer["usage"]["completion_tokens"], 4)
        stream = self.fetch(url + "/v1/chat/completions", {**body, "stream": True})
        self.assertTrue(stream.rstrip().endswith("data: [DONE]"), stream)
        models = json.loads(self.fetch(url + "/v1/models"))
        self.assertEqual(models["data"][0]["id"], pathlib.Path(MODEL).name)
        self.stop(server)

    def test_sigint_is_0_too(self):
        server, _ = self.start()
        self.stop(server, signal.SIGINT)

    def test_key_from_the_environment_and_a_name(self):
        server, url = self.start("--served-model-name", "nano", env={"QUERN_API_KEY": "sesame"})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.fetch(url + "/v1/models")
        self.assertEqual(refused.exception.code, 401)
        refused.exception.close()
        self.assertEqual(json.loads(self.fetch(url + "/v1/models", key="sesame"))["data"][0]["id"], "nano")
        self.stop(server)

    def test_port_in_use_is_a_clear_error(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = run("serve", MODEL, "--port", str(port))
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(port), done.stderr)
        self.assertIn("in use", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
