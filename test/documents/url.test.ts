// Documents at addresses, from a server of the test's own.
import { expect, test } from 'vitest'
import { findDocuments } from '../../src/documents/read.ts'
import { toGraphmillError } from '../../src/errors.ts'
import { type Scripted, startRecordingServer } from '../support/recording-server.ts'

const never = new AbortController().signal
const html = '<!doctype html><p>A <b>mill</b> grinds.</p>'
const type = (name: string) => ({ 'content-type': name })

/** What the server's answers become: the text of the document, or the error. */
async function read(answers: readonly Scripted[], path = '/notes', limits = { memoryMb: 128, seconds: 20 }) {
  await using server = await startRecordingServer(answers)
  const url = server.origin + path
  const seen = () => server.requests.map((request) => request.path)
  try {
    const [document] = await findDocuments(url, never, { limits })
    const prepared = (await document!.prepare?.(never)) ?? document!
    let text = ''
    for await (const piece of prepared.text()) text += piece
    const { id, title, uri, mediaType } = document!
    expect({ id, uri }).toEqual({ id: url, uri: url })
    return { text: text.trim(), title, mediaType, seen: seen() }
  } catch (thrown) {
    const { code, message } = toGraphmillError(thrown)
    return { code, message: message.replaceAll(server.origin, ''), seen: seen() }
  }
}

test.each<[string, Scripted, string, string, string]>([
  [
    'its content type',
    { headers: type('text/html; charset=utf-8'), body: '<p>A mill.</p>' },
    '/a.md',
    'text/html',
    'A mill.',
  ],
  [
    'its content type',
    { headers: type('text/markdown'), body: '# A mill' },
    '/a',
    'text/markdown',
    '# A mill',
  ],
  ['its first bytes', { headers: type('text/plain'), body: html }, '/a', 'text/html', 'A mill grinds.'],
  ['its first bytes', { body: 'A mill.' }, '/', 'text/plain', 'A mill.'],
  [
    'its extension',
    { headers: type('application/octet-stream'), body: '# A mill' },
    '/b%20c.md?d=e',
    'text/markdown',
    '# A mill',
  ],
])('is read as %s says', async (_, answer, path, mediaType, text) => {
  expect(await read([answer], path)).toMatchObject({ mediaType, text })
})

test('is named by the end of its path, or its host', async () => {
  const body = { body: 'A mill.' }
  expect(await read([body], '/a/b%20c.md?d=e')).toMatchObject({ title: 'b c.md' })
  expect(await read([body], '/a/')).toMatchObject({ title: 'a' })
  expect(await read([body], '/%ff')).toMatchObject({ title: '%ff' })
  expect(await read([body], '/')).toMatchObject({ title: expect.stringMatching(/^127\.0\.0\.1:/) })
})

test.each<[string, Scripted[], string, string]>([
  [
    'another type',
    [{ headers: type('application/json'), body: '{}' }],
    'document_unsupported',
    '"application/json"',
  ],
  ['bytes that are no text', [{ body: Buffer.of(1, 0, 2) }], 'document_unsupported', 'neither text'],
  [
    'no UTF-8',
    [{ headers: type('text/plain; charset=latin1'), body: Buffer.of(0xe9) }],
    'document_not_utf8',
    'UTF-8',
  ],
  ['no text', [{ body: ' ' }], 'document_empty', 'no text'],
  ['an error', [{ status: 404 }], 'document_unreadable', 'answers 404'],
  ['a server that stays busy', [{ status: 503 }], 'document_unreadable', 'answers 503'],
  ['a connection that breaks', [{ cut: true }], 'document_unreadable', '/notes: '],
  [
    'redirects without end',
    [{ status: 302, headers: { location: '/notes' } }],
    'document_unreadable',
    'more than 5 times',
  ],
  [
    'a redirect to another server without TLS',
    [{ status: 302, headers: { location: 'http://169.254.169.254/' } }],
    'document_unreadable',
    'http://169.254.169.254, which is not followed',
  ],
  [
    'a redirect with credentials',
    [{ status: 302, headers: { location: 'https://me:secret@host/' } }],
    'document_unreadable',
    'to https://host, which',
  ],
])('%s is an error', async (_, answers, code, message) => {
  const found = await read(answers)
  expect(found).toMatchObject({ code, message: expect.stringContaining(message) })
  expect(found.message).not.toContain('secret')
  expect(found.seen.length).toBeLessThanOrEqual(6)
})

test('a server that was busy for a moment is asked again, and a redirect on its host is followed', async () => {
  const found = await read([
    { status: 503 },
    { status: 301, headers: { location: '/there' } },
    { headers: type('text/plain'), body: 'A mill.' },
  ])
  expect(found).toMatchObject({ text: 'A mill.', title: 'notes', seen: ['/notes', '/notes', '/there'] })
})

test('an endless text ends at the bound, and a silent server at the timeout', async () => {
  const endless: Scripted = {
    by(response) {
      const more = (): void => {
        while (!response.destroyed && response.write('A mill. '.repeat(10_000))) {}
      }
      response.on('drain', more)
      more()
    },
  }
  expect(await read([endless])).toMatchObject({
    code: 'document_too_large',
    message: expect.stringContaining('32 MiB'),
  })
  const silent = { by: () => undefined }
  expect(await read([silent], '/notes', { memoryMb: 128, seconds: 1 })).toMatchObject({
    code: 'document_unreadable',
    message: '/notes: it took longer than 1 s (--document-timeout).',
  })
})

test('credentials are refused and not repeated', async () => {
  const error = await findDocuments('https://me:secret@host/notes?a=b#c', never).catch(toGraphmillError)
  expect(error).toMatchObject({ code: 'usage', message: expect.stringContaining('https://host/notes: ') })
  expect(String(error)).not.toContain('secret')
  await expect(findDocuments('http://', never)).rejects.toMatchObject({ code: 'usage' })
})
