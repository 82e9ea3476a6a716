// SPDX-License-Identifier: Apache-2.0
// The browser of tests/browser: Debian's chromium under playwright-core, told by lines of JSON.
//
// A line {"id", "code", "args"} on standard input is the body of an async function of (page, args,
// context, browser); its value comes back as {"id", "value"} or {"id", "error"}. What the page
// complains about meanwhile comes as {"event", "text"}: error, console, csp, failed, stranger. A
// request to anything but loopback is a stranger and never leaves the machine. The end of the
// input closes the browser.
"use strict";
const readline = require("readline");
const { chromium } = require("playwright-core");

const say = (o) => process.stdout.write(JSON.stringify(o) + "\n");
const LOOPBACK = new Set(["127.0.0.1", "localhost", "[::1]"]);
const AsyncFunction = (async () => {}).constructor;

function watch(page) {
  page.on("pageerror", (e) => say({ event: "error", text: String(e.stack || e) }));
  page.on("console", (m) => {
    if (m.type() === "error" || m.type() === "warning") {
      const csp = /Content Security Policy/.test(m.text());
      say({ event: csp ? "csp" : "console", text: `${m.type()}: ${m.text()}` });
    }
  });
  page.on("requestfailed", (r) => {
    const why = r.failure() ? r.failure().errorText : "";
    if (why !== "net::ERR_ABORTED") say({ event: "failed", text: `${r.url()} ${why}` });
  });
}

async function main() {
  const opts = JSON.parse(process.argv[2]);
  const browser = await chromium.launch({
    executablePath: opts.chromium,
    headless: true,
    // WebGL in software, as a machine without a display has it. The sandbox of chromium cannot be
    // had by root, which is who runs tests in a container; the pages are our own.
    args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
           "--disable-dev-shm-usage", "--force-color-profile=srgb"],
  });
  const context = await browser.newContext({
    viewport: { width: opts.width, height: opts.height },
    colorScheme: opts.scheme,
    ignoreHTTPSErrors: true,
  });
  await context.route("**/*", (route) => {
    const url = new URL(route.request().url());
    if (LOOPBACK.has(url.hostname) || url.protocol === "data:" || url.protocol === "blob:") {
      return route.fallback();
    }
    say({ event: "stranger", text: url.href });
    return route.abort();
  });
  context.on("page", watch);
  const page = await context.newPage();
  page.setDefaultTimeout(opts.timeout_ms);
  say({ id: 0, value: browser.version() });

  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { id, code, args } = JSON.parse(line);
    try {
      const run = new AsyncFunction("page", "args", "context", "browser", code);
      const value = await run(page, args, context, browser);
      say({ id, value: value === undefined ? null : value });
    } catch (e) {
      say({ id, error: String(e.stack || e) });
    }
  }
  await browser.close();
}

main().catch((e) => {
  process.stderr.write(`${e.stack || e}\n`);
  process.exit(1);
});
