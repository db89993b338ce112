// A server that answers with the credentials that it was sent, in every form, as a careless proxy or an angry one does.
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { formsOf } from './secret-forms.ts'

/** How it answers, by the first part of the path. */
export const echoModes = {
  unauthorized: 401,
  refused: 400,
  missing: 404,
  broken: 500,
  moved: 307,
  html: 401,
  'error-in-json': 200,
  'error-event': 200,
  'no-json': 200,
  cut: 400,
} as const

export type EchoMode = keyof typeof echoModes

export interface EchoServer extends AsyncDisposable {
  /** `http://127.0.0.1:port/mode`. */
  at(mode: EchoMode): string
}

const credentialsOf = ({ authorization = '' }: IncomingHttpHeaders): string[] => {
  const [scheme, value = ''] = authorization.split(' ')
  return scheme === 'Basic' ? [value, Buffer.from(value, 'base64').toString()] : [value]
}

export async function startEchoServer(): Promise<EchoServer> {
  const server = createServer((request, response) => {
    const mode = /^\/([^/?]+)/.exec(request.url!)![1] as EchoMode
    const credentials = credentialsOf(request.headers)
    const said = credentials.flatMap((each) => Object.values(formsOf(each))).join(' , ')
    const [first = ''] = credentials
    const json = { 'content-type': 'application/json' }
    const error = { error: { message: `wrong key: ${said}`, code: first, param: first, type: first } }
    const answer = (headers: Record<string, string>, body: string) =>
      response.writeHead(echoModes[mode], { 'x-echo': first, ...headers }).end(body)
    request.resume()
    switch (mode) {
      case 'moved':
        return answer({ location: `/elsewhere/${first}?key=${encodeURIComponent(first)}` }, said)
      case 'html':
        return answer({ 'content-type': 'text/html' }, `<p>${said}</p>`)
      case 'error-event':
        return answer(
          { 'content-type': 'text/event-stream' },
          `event: error\ndata: ${JSON.stringify(error)}\n\n`,
        )
      case 'no-json':
        return answer(json, `{"error": ${first} ${said}`)
      case 'cut':
        // Messages are cut at 200 to 500 characters: in the middle of it.
        return answer(
          json,
          JSON.stringify({ error: { message: `${'x'.repeat(180)} ${first} ${'y'.repeat(255)} ${first}` } }),
        )
      default:
        return answer(json, JSON.stringify(error))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    at: (mode) => `http://127.0.0.1:${port}/${mode}`,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** The pieces of secrets, of twelve characters and more, that a text shows in any form; none is expected. */
export function shownOf(secrets: readonly string[], text: string): string[] {
  const lower = text.toLowerCase()
  return secrets.flatMap((secret) =>
    Object.entries(formsOf(secret))
      .filter(
        ([, form]) => lower.includes(form.toLowerCase()) || lower.includes(form.slice(0, 20).toLowerCase()),
      )
      .map(([name]) => `${name} of ${secret.slice(0, 4)}…`),
  )
}
