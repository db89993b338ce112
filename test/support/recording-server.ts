// An HTTP server for tests, on 127.0.0.1 and a free port: it keeps every request byte for byte and answers from a list, in order.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** One answer. */
export interface Scripted {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** An object is sent as JSON, text and bytes as they are. */
  readonly body?: unknown
  /** Sent as an event stream: objects as JSON, text (such as `[DONE]`) as it is. */
  readonly events?: readonly unknown[]
  /** Sent as lines of JSON. */
  readonly lines?: readonly unknown[]
  /** The connection is cut instead. */
  readonly cut?: boolean
  /** Answers by hand, with the request that was recorded. */
  readonly by?: (response: ServerResponse, request: Recorded) => void
}

export interface Recorded {
  readonly method: string
  readonly path: string
  /** The body, verbatim. */
  readonly text: string
  /** The body, parsed. */
  readonly json: Record<string, unknown>
  readonly headers: IncomingMessage['headers']
}

export interface RecordingServer extends AsyncDisposable {
  /** With `/v1`. */
  readonly url: string
  readonly origin: string
  readonly requests: readonly Recorded[]
  /** Resolves when this many requests have come. */
  until(count: number): Promise<void>
  close(): Promise<void>
}

/** The last answer is given again when the list is used up only if it is the only one; else 599 tells of a call too many. */
export async function startRecordingServer(answers: readonly Scripted[]): Promise<RecordingServer> {
  const requests: Recorded[] = []
  const waiting: { count: number; resolve: () => void }[] = []
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const text = Buffer.concat(parts).toString('utf8')
    const { method = '', url = '', headers } = request
    const recorded = { method, path: url, text, json: jsonOf(text), headers }
    requests.push(recorded)
    for (const { count, resolve } of waiting) if (requests.length >= count) resolve()
    const scripted = answers.length === 1 ? answers[0] : answers[requests.length - 1]
    answer(response, scripted ?? { status: 599, body: 'a call too many' }, recorded)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const close = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  return {
    url: `${origin}/v1`,
    origin,
    requests,
    until: (count) =>
      new Promise((resolve) => {
        if (requests.length >= count) resolve()
        else waiting.push({ count, resolve })
      }),
    close,
    [Symbol.asyncDispose]: close,
  }
}

function answer(response: ServerResponse, scripted: Scripted, recorded: Recorded): void {
  const { status = 200, headers = {}, body, events, lines, cut, by } = scripted
  if (by) by(response, recorded)
  else if (cut) response.destroy()
  else if (events) {
    response.writeHead(status, { 'content-type': 'text/event-stream', ...headers })
    response.end(events.map((event) => `data: ${asText(event)}\n\n`).join(''))
  } else if (lines) {
    response.writeHead(status, { 'content-type': 'application/x-ndjson', ...headers })
    response.end(lines.map((line) => `${asText(line)}\n`).join(''))
  } else if (typeof body === 'string' || Buffer.isBuffer(body)) {
    response.writeHead(status, headers).end(body)
  } else {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(JSON.stringify(body ?? {}))
  }
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function jsonOf(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return {}
  }
}
