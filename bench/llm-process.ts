// The scripted model server in a separate process, so that it does not share its event loop with the measured code.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Knobs } from '../test/support/llm-script.ts'
import type { Counts } from '../test/support/llm-server.ts'

export interface LlmProcess {
  /** The value for OPENAI_BASE_URL. */
  readonly url: string
  set(knobs: Knobs): Promise<void>
  counts(): Promise<Counts>
  stop(): Promise<void>
}

export async function startLlmProcess(): Promise<LlmProcess> {
  const program = resolve(import.meta.dirname, '../test/support/llm-server-main.ts')
  const child = spawn(process.execPath, [program, '--with-parent'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [port] = (await once(createInterface(child.stdout), 'line')) as [string]
  const ask = async (path: string, body?: object) => {
    const answer = await fetch(`http://127.0.0.1:${port}/control/${path}`, {
      method: body ? 'POST' : 'GET',
      ...(body && { body: JSON.stringify(body) }),
    })
    return answer.json()
  }
  return {
    url: `http://127.0.0.1:${port}/v1`,
    set: (knobs) => ask('set', knobs) as Promise<void>,
    counts: () => ask('counts') as Promise<Counts>,
    async stop() {
      child.kill('SIGTERM')
      await once(child, 'exit')
    },
  }
}
