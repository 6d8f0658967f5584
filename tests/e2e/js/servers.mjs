// Servers to test against; the same two as in ../conftest.py.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import OpenAI from "openai";

const data = (path) => fileURLToPath(new URL("../../data/" + path, import.meta.url));

class Server {
  static async start(command, args, readyPattern) {
    const server = new Server();
    server.process = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
    const lines = createInterface({ input: server.process.stdout });
    server.port = await new Promise((resolve, reject) => {
      lines.on("line", (line) => {
        const found = readyPattern.exec(line);
        if (found) resolve(Number(found[1]));
      });
      server.process.on("exit", () => reject(new Error(command + " ended before it was ready")));
    });
    server.url = `http://127.0.0.1:${server.port}`;
    return server;
  }
  client(options = {}) {
    return new OpenAI({ baseURL: this.url + "/v1", apiKey: "none", maxRetries: 0, ...options });
  }
  async post(path, body) {
    const response = await fetch(this.url + path, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    return response.json();
  }
  async metric(name) {
    const text = await (await fetch(this.url + "/metrics")).text();
    return Number(new RegExp(`^${name} (.*)$`, "m").exec(text)[1]);
  }
  async stop(signal = "SIGTERM") {
    if (this.process.exitCode !== null) return this.process.exitCode;
    const exited = once(this.process, "exit");
    this.process.kill(signal);
    return (await exited)[0];
  }
}

export const startReal = () =>
  Server.start(process.env.QUERN_BINARY, ["serve", process.env.QUERN_MODEL, "--port", "0"],
    /ready at http:\/\/127\.0\.0\.1:(\d+)/);

export const startScripted = (...flags) =>
  Server.start(process.env.QUERN_FAKE_SERVER,
    [data("tokenizer/tokenizer.json"), data("chat/glm-5.2.jinja"), ...flags], /listening on (\d+)/);

// A message that makes the scripted engine answer with `text` (from inside its reasoning).
export const say = (text, ...directives) =>
  "[[say]]" + text.replaceAll("</", "<\\/") + "[[/say]]" + directives.map((d) => `[[${d}]]`).join("");
