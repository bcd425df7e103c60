// One conversation of the TypeScript client with a gateway. Standard input holds {modules, url, mode, steps}; standard output gets
// the replies as a list, or {"error": …} with exit code 1.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const { modules, url, mode, steps } = JSON.parse(readFileSync(0, "utf8"));
const { Client, StreamableHTTPClientTransport } = createRequire(`${modules}/`)("@modelcontextprotocol/client");

async function converse() {
  const options = mode === "default" ? {} : { versionNegotiation: { mode } };
  const client = new Client({ name: "real-tests", version: "1" }, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const replies = [];
  for (const step of steps) {
    if (step.tool === undefined) {
      replies.push((await client.listTools()).tools.map((tool) => tool.name));
    } else {
      replies.push(await client.callTool({ name: step.tool, arguments: step.arguments }));
    }
  }
  await client.close();
  return replies;
}

try {
  process.stdout.write(JSON.stringify(await converse()));
} catch (error) {
  process.stdout.write(JSON.stringify({ error: `${error?.name}: ${error?.message}` }));
  process.exitCode = 1;
}
