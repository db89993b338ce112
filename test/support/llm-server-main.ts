// The scripted model server as a process of its own: `node test/support/llm-server-main.ts [SCRIPT.yaml] [--port N]`.
// Prints its port on the first line of stdout; ends on SIGTERM, or when its parent closes stdin (with `--with-parent`).
import { parseArgs } from 'node:util'
import { readScript } from './llm-script.ts'
import { startLlmServer } from './llm-server.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { port: { type: 'string', default: '0' }, 'with-parent': { type: 'boolean', default: false } },
})
const script = positionals[0] === undefined ? {} : await readScript(positionals[0])
const server = await startLlmServer(script, Number(values.port))
process.stdout.write(`${server.port}\n`)
process.once('SIGTERM', end)
if (values['with-parent']) process.stdin.resume().once('end', end)

/** An open stdin would keep the process. */
function end(): void {
  process.stdin.destroy()
  void server.close()
}
