// A server with Azure OpenAI's addresses for tests, on 127.0.0.1 and a free port: the v1 API and the classic one. It keeps every
// request, refuses those that break a published rule (path, version, credentials), and replies as its script says (llm-script.ts).
import type { ServerResponse } from 'node:http'
import { answerer, type LlmScript } from './llm-script.ts'
import {
  type Recorded,
  type RecordingServer,
  type Scripted,
  startRecordingServer,
} from './recording-server.ts'

type Fields = Readonly<Record<string, unknown>>

export interface AzureScript extends Pick<LlmScript, 'rules'> {
  readonly apiKey?: string
  /** A token that is accepted too. */
  readonly token?: string
  /** Default `my-gpt`. */
  readonly deployments?: readonly string[]
  /** Answers to the calls for a completion, in order; those after the last one follow the script. */
  readonly answers?: readonly Scripted[]
}

export interface AzureServer extends Pick<RecordingServer, 'origin' | 'requests' | 'close'>, AsyncDisposable {
  readonly calls: () => readonly Recorded[]
}

const safe = { hate: { filtered: false, severity: 'safe' }, violence: { filtered: false, severity: 'safe' } }

export async function startAzureServer(script: AzureScript = {}): Promise<AzureServer> {
  const { apiKey = 'azure-key-123', token = 'entra-token-123', deployments = ['my-gpt'] } = script
  const answer = answerer(script)
  const answers = [...(script.answers ?? [])]
  const by = (response: ServerResponse, request: Recorded) => {
    serve(response, request).catch(() => response.destroy())
  }
  const server = await startRecordingServer([{ by }])

  async function serve(response: ServerResponse, { path, headers, json }: Recorded): Promise<void> {
    const { pathname, searchParams } = new URL(path, 'http://server')
    const version = searchParams.get('api-version')
    const { 'api-key': key, authorization } = headers
    const isKnown =
      key === undefined ? authorization === `Bearer ${token}` : key === apiKey && authorization === undefined
    if (!isKnown)
      return refuse(response, 401, {
        code: '401',
        message: 'Access denied due to invalid subscription key or wrong API endpoint.',
      })
    const isV1 = pathname.startsWith('/openai/v1/')
    if (isV1 && /^\d/.test(version ?? ''))
      return refuse(response, 400, {
        code: 'BadRequest',
        message: 'api-version query parameter is not allowed when using /v1 path',
      })
    if (!isV1 && !/^\d{4}-\d\d-\d\d(-preview)?$/.test(version ?? ''))
      return refuse(response, 404, { code: '404', message: 'Resource not found' })
    if (/^\/openai(\/v1)?\/models$/.test(pathname))
      return send(response, { data: [{ id: 'gpt-4.1', object: 'model', owned_by: 'system' }] })
    const classic = /^\/openai\/deployments\/([^/]+)\/chat\/completions$/.exec(pathname)
    if (!classic && pathname !== '/openai/v1/chat/completions')
      return refuse(response, 404, { code: '404', message: 'Resource not found' })
    const deployment = classic ? decodeURIComponent(classic[1]!) : String(json['model'])
    if (!deployments.includes(deployment))
      return refuse(response, 404, {
        code: 'DeploymentNotFound',
        message: 'The API deployment for this resource does not exist.',
      })
    const byHand = answers.shift()
    if (byHand) return writeScripted(response, byHand)
    const messages = json['messages'] as { role: string; content: string }[]
    const prompt = messages.findLast(({ role }) => role === 'user')?.content ?? ''
    const conversation = messages.map(({ content }) => content).join('\n\n')
    const { text = '', truncateAfter } = await answer({ prompt, conversation, body: json })
    if (json['stream']) writeStream(response, text, truncateAfter)
    else
      send(response, {
        model: 'gpt-4.1',
        choices: [
          {
            message: { role: 'assistant', content: text },
            finish_reason: 'stop',
            content_filter_results: safe,
          },
        ],
        usage,
        prompt_filter_results: [],
      })
  }

  return {
    ...server,
    calls: () => server.requests.filter(({ path }) => path.includes('/chat/completions')),
  }
}

const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }

/** As Azure does: the filter's results come first, without a choice, and those of the reply at its end, without a delta. */
function writeStream(response: ServerResponse, text: string, truncateAfter = Number.POSITIVE_INFINITY): void {
  const tokens = text.match(/[\s\S]{1,4}/g) ?? []
  const kept = tokens.slice(0, truncateAfter)
  const chunk = (choice: Fields) => ({
    id: 'c-1',
    model: 'gpt-4.1',
    object: 'chat.completion.chunk',
    choices: [{ index: 0, finish_reason: null, ...choice }],
  })
  const events = [
    {
      id: '',
      model: '',
      object: '',
      created: 0,
      choices: [],
      prompt_filter_results: [{ prompt_index: 0, content_filter_results: safe }],
    },
    chunk({ delta: { role: 'assistant', content: '' } }),
    ...kept.map((content) => chunk({ delta: { content }, content_filter_results: {} })),
    {
      ...chunk({ content_filter_results: safe, content_filter_offsets: { check_offset: 1 } }),
      id: '',
      model: '',
    },
    chunk({ delta: {}, finish_reason: kept.length < tokens.length ? 'length' : 'stop' }),
    { id: 'c-1', model: 'gpt-4.1', object: 'chat.completion.chunk', choices: [], usage },
    '[DONE]',
  ]
  writeScripted(response, { events })
}

function writeScripted(response: ServerResponse, { status = 200, headers, body, events }: Scripted): void {
  response.writeHead(status, {
    'content-type': events ? 'text/event-stream' : 'application/json',
    ...headers,
  })
  const asText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
  response.end(events ? events.map((event) => `data: ${asText(event)}\n\n`).join('') : asText(body ?? {}))
}

function refuse(response: ServerResponse, status: number, error: Fields): void {
  writeScripted(response, { status, body: { error } })
}

function send(response: ServerResponse, body: Fields): void {
  writeScripted(response, { body })
}
