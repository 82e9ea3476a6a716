// SPDX-License-Identifier: Apache-2.0
// hooks.js - webhooks made and checked by the providers' own libraries, for 135-interop-senders.py.
//
//     node hooks.js send    < {now}      prints requests that the libraries signed, as JSON
//     node hooks.js receive < requests   prints which of them the libraries accept, as JSON
//
// A request is {kind, secret, target, type, headers: [[name, value]], body, note}.
const crypto = require("node:crypto");
const octokit = import("@octokit/webhooks-methods"); // a module only
const Stripe = require("stripe");
const { Webhook: Standard } = require("standardwebhooks");
const { Webhook: Svix } = require("svix");
const twilio = require("twilio");
const discord = require("discord-interactions");
const { isValidSlackRequest } = require("@slack/bolt/dist/receivers/verify-request");

const URL_BASE = "https://hooks.example.org";
const SECRETS = {
  github: "It's a Secret to Everybody",
  stripe: "whsec_of_a_stripe_endpoint",
  slack: "8f742231b10e8888abcd99yyyzzz85a5",
  standardwebhooks: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  twilio: "0123456789abcdef0123456789abcdef",
};
const stripe = new Stripe("sk_test_unused");
const FORM = "application/x-www-form-urlencoded";
// The first key of RFC 8032, in the wrappings that node wants.
const SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
const edKey = crypto.createPrivateKey({
  key: Buffer.from("302e020100300506032b657004220420" + SEED, "hex"),
  format: "der", type: "pkcs8"});

const bodies = [
  '{"id":"evt_1","type":"a.b","data":{"object":{"amount":2000}}}',
  '{ "id" : "evt_2" ,\n "text": "\\u00e4 \u00e4 \u{1F600}" }',
  "{}",
];

async function send(now) {
  const s = Math.floor(now / 1000);
  const { sign } = await octokit;
  const out = [];
  const add = (kind, note, headers, body, more) =>
    out.push({kind, note, secret: SECRETS[kind], target: "/webhooks/" + kind,
              type: "application/json", headers, body, ...more});
  for (const [i, body] of bodies.entries()) {
    add("github", "octokit", [["X-Hub-Signature-256", await sign(SECRETS.github, body)],
                              ["X-GitHub-Delivery", "d-" + i], ["X-GitHub-Event", "push"]], body);
    add("stripe", "stripe", [["Stripe-Signature", stripe.webhooks.generateTestHeaderString(
      {payload: body, secret: SECRETS.stripe, timestamp: s})]], body);
    const standard = new Standard(SECRETS.standardwebhooks).sign("msg_" + i, new Date(now), body);
    add("standardwebhooks", "standardwebhooks",
        [["webhook-id", "msg_" + i], ["webhook-timestamp", String(s)],
         ["webhook-signature", standard]], body);
    const svix = new Svix(SECRETS.standardwebhooks).sign("svix_" + i, new Date(now), body);
    add("standardwebhooks", "svix", [["svix-id", "svix_" + i], ["svix-timestamp", String(s)],
                                     ["svix-signature", svix]], body);
    const slackMac = crypto.createHmac("sha256", SECRETS.slack).update(`v0:${s}:${body}`);
    add("slack", "bolt", [["X-Slack-Request-Timestamp", String(s)],
                          ["X-Slack-Signature", "v0=" + slackMac.digest("hex")]], body);
    const hash = twilio.getExpectedBodyHash(body);
    const target = "/webhooks/twilio?x=1&bodySHA256=" + hash;
    add("twilio", "twilio body", [["X-Twilio-Signature", twilio.getExpectedTwilioSignature(
      SECRETS.twilio, URL_BASE + target, {})]], body, {target});
    add("discord", "discord-interactions",
        [["X-Signature-Timestamp", String(s)],
         ["X-Signature-Ed25519", crypto.sign(null, Buffer.from(s + body), edKey).toString("hex")]],
        body, {secret: PUBLIC});
  }
  for (const params of [{CallSid: "CA1", From: "+14158675309", Body: "a b&c=d\n\u00e4"},
                        {b: ["2", "1", "2"], a: "", B: "x"}, {}]) {
    add("twilio", "twilio form", [["X-Twilio-Signature", twilio.getExpectedTwilioSignature(
      SECRETS.twilio, URL_BASE + "/webhooks/twilio", params)]],
        new URLSearchParams(Object.entries(params).flatMap(
          ([k, v]) => [].concat(v).map(x => [k, x]))).toString(), {type: FORM});
  }
  return out;
}

async function accepts(r) {
  const h = Object.fromEntries(r.headers.map(([k, v]) => [k.toLowerCase(), v]));
  switch (r.kind) {
    case "github":
      return (await octokit).verify(r.secret, r.body, h["x-hub-signature-256"]);
    case "stripe":
      stripe.webhooks.constructEvent(r.body, h["stripe-signature"], r.secret);
      return true;
    case "standardwebhooks":
      new Standard(r.secret).verify(r.body, h);
      new Svix(r.secret).verify(r.body, h);
      return true;
    case "slack":
      return isValidSlackRequest({signingSecret: r.secret, body: r.body, headers: {
        "x-slack-signature": h["x-slack-signature"],
        "x-slack-request-timestamp": Number(h["x-slack-request-timestamp"])}});
    case "twilio":
      return r.type === FORM
        ? twilio.validateRequest(r.secret, h["x-twilio-signature"], URL_BASE + r.target,
                                 Object.fromEntries(new URLSearchParams(r.body)))
        : twilio.validateRequestWithBody(r.secret, h["x-twilio-signature"], URL_BASE + r.target,
                                         r.body);
    case "discord":
      return discord.verifyKey(r.body, h["x-signature-ed25519"], h["x-signature-timestamp"],
                               PUBLIC);
    default:
      throw new Error("no library for " + r.kind);
  }
}

async function main() {
  const input = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
  if (process.argv[2] === "send") {
    return send(input.now);
  }
  const results = [];
  for (const r of input) {
    results.push(await accepts(r).catch(e => (r.note === "good" ? String(e) : false)));
  }
  return results;
}
main().then(x => process.stdout.write(JSON.stringify(x)),
            e => { console.error(e); process.exit(1); });
