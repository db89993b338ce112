// A receiver of OTLP over HTTP, JSON, on the loopback: what an SDK exports, as it comes.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'

export interface ReceivedSpan {
  /** The process that sent it. */
  readonly process: string
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  /** Empty for the first of a trace. */
  readonly parentSpanId: string
  /** OTLP's number: 3 client, 4 producer, 5 consumer. */
  readonly kind: number
  readonly failed: boolean
  readonly attributes: Readonly<Record<string, string>>
}

export interface OtlpReceiver {
  readonly spans: readonly ReceivedSpan[]
  /** For a process of the given name that is to send its spans here. */
  environment(process: string): Record<string, string>
  /** Resolves when the spans satisfy; rejects after a minute. */
  until(satisfied: (spans: readonly ReceivedSpan[]) => boolean): Promise<void>
  close(): Promise<void>
}

interface OtlpSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly kind: number
  readonly status?: { readonly code?: number }
  readonly attributes?: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[]
}

interface OtlpBody {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[]
  }[]
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = []
  const heard = new Set<() => void>()
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (more: string) => {
      text += more
    })
    request.on('end', () => {
      const sender = String(request.headers['x-process'])
      const { resourceSpans } = JSON.parse(text) as OtlpBody
      const found = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans))
      spans.push(...found.map((span) => received(sender, span)))
      response.setHeader('content-type', 'application/json').end('{}')
      for (const look of heard) look()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`
  const setup = fileURLToPath(new URL('./opentelemetry.ts', import.meta.url))
  return {
    spans,
    environment: (process) => ({
      NODE_OPTIONS: `--disable-warning=ExperimentalWarning --import=${setup}`,
      TEST_OTLP_URL: url,
      TEST_PROCESS: process,
    }),
    until(satisfied) {
      return new Promise((resolve, reject) => {
        const timer = setTimeout(
          () => reject(new Error(`not within a minute; there are ${JSON.stringify(spans, null, 1)}`)),
          60_000,
        )
        const look = () => {
          if (!satisfied(spans)) return
          heard.delete(look)
          clearTimeout(timer)
          resolve()
        }
        heard.add(look)
        look()
      })
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function received(process: string, span: OtlpSpan): ReceivedSpan {
  const { name, traceId, spanId, parentSpanId = '', kind, status, attributes = [] } = span
  return {
    process,
    name,
    traceId,
    spanId,
    parentSpanId,
    kind,
    failed: status?.code === 2,
    attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? ''])),
  }
}
