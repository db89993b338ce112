// OLLAMA_HOST in all notations that Ollama accepts.
import { expect, it } from 'vitest'
import { ollamaBaseUrl } from '../../../src/llm/ollama/ollama.ts'

it.each([
  ['', 'http://127.0.0.1:11434'],
  ['127.0.0.1', 'http://127.0.0.1:11434'],
  ['localhost:8080', 'http://localhost:8080'],
  ['gpu-box', 'http://gpu-box:11434'],
  [':8080', 'http://127.0.0.1:8080'],
  ['0.0.0.0', 'http://127.0.0.1:11434'],
  ['0.0.0.0:8080', 'http://127.0.0.1:8080'],
  ['http://0.0.0.0:11434/', 'http://127.0.0.1:11434'],
  ['::1', 'http://[::1]:11434'],
  ['[::1]', 'http://[::1]:11434'],
  ['[::1]:8080', 'http://[::1]:8080'],
  ['::', 'http://[::1]:11434'],
  ['[::]:8080', 'http://[::1]:8080'],
  ['fe80::1', 'http://[fe80::1]:11434'],
  ['http://gpu-box:11434', 'http://gpu-box:11434'],
  ['http://gpu-box:11434///', 'http://gpu-box:11434'],
  ['http://[::]:8080', 'http://[::1]:8080'],
  // With a scheme the port is that of the scheme, as for Ollama's own client.
  ['http://gpu-box', 'http://gpu-box'],
  ['https://example.org', 'https://example.org'],
  ['HTTPS://Example.org:443/', 'https://example.org'],
  ['https://example.org/ollama/', 'https://example.org/ollama'],
  ['example.org/ollama/', 'http://example.org:11434/ollama'],
  [' "localhost:8080" ', 'http://localhost:8080'],
  ['localhost/', 'http://localhost:11434'],
])('%j is %s', (host, url) => {
  expect(ollamaBaseUrl(host)).toBe(url)
  expect(ollamaBaseUrl(url)).toBe(url)
})

it.each(['ftp://host', 'http://', 'a b', 'host:99999', 'http://user:secret@host', 'user:secret@host'])(
  '%j is refused, without showing credentials',
  (host) => {
    try {
      ollamaBaseUrl(host)
      expect.unreachable()
    } catch (thrown) {
      expect(thrown).toMatchObject({ code: 'configuration_invalid' })
      expect(String(thrown)).not.toContain('secret')
    }
  },
)
