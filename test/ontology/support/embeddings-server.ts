// A small embeddings server, of OpenAI's kind and of Ollama's: a text's vector counts its words, so texts that share words are close.
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface EmbeddingsServerDouble {
  readonly url: string
  /** The texts of each request so far. */
  readonly requests: readonly (readonly string[])[]
  /** What the last request carried to say who asks. */
  readonly authorization: string | undefined
  /** What is answered instead of vectors, until it is taken back. */
  answer: { readonly status: number; readonly body: string } | undefined
  close(): Promise<void>
}

const size = 64

export async function startEmbeddingsServer(): Promise<EmbeddingsServerDouble> {
  const requests: string[][] = []
  let authorization: string | undefined
  const server = createServer(async (request, response) => {
    authorization = request.headers.authorization
    const { input } = JSON.parse(await bodyOf(request)) as { input: string[] }
    requests.push(input)
    const { status, body } = double.answer ?? { status: 200, body: vectorsOf(input, request.url ?? '') }
    response.writeHead(status, { 'content-type': 'application/json' }).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const double: EmbeddingsServerDouble = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    get authorization() {
      return authorization
    },
    answer: undefined,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return double
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const part of request) text += part
  return text
}

function vectorsOf(input: readonly string[], path: string): string {
  const vectors = input.map(vectorOf)
  if (path === '/api/embed') return JSON.stringify({ model: 'm', embeddings: vectors })
  // Out of order, as the index allows.
  return JSON.stringify({ data: vectors.map((embedding, index) => ({ index, embedding })).reverse() })
}

function vectorOf(text: string): number[] {
  const vector = new Array<number>(size).fill(0.01)
  for (const word of text.toLowerCase().match(/[a-z]+/g) ?? []) {
    const place = [...word].reduce((hash, letter) => (hash * 31 + letter.charCodeAt(0)) % size, 7)
    vector[place] = (vector[place] ?? 0) + 1
  }
  return vector
}
