// Documents of every kind, and what is none.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, open, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { PDFDocument, PDFName, type PDFRef } from 'pdf-lib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SkippedFile } from '../../src/documents/files.ts'
import { htmlText } from '../../src/documents/html.ts'
import { openTree } from '../../src/documents/pdf-tree.ts'
import { type FindOptions, findDocuments, type TextSource, walkDocuments } from '../../src/documents/read.ts'
import { toGraphmillError } from '../../src/errors.ts'
import type { SubprocessLimits } from '../../src/subprocess/subprocess.ts'
import { encrypt, forge, makePdf, pdfBombs, update } from '../support/pdf.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-documents-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const never = new AbortController().signal

const written = async (
  name: string,
  content: string | Uint8Array,
  limits?: SubprocessLimits,
): Promise<TextSource> => {
  await writeFile(join(folder, name), content)
  const [source] = await findDocuments(join(folder, name), never, limits && { limits })
  return (await source!.prepare?.(never)) ?? source!
}

const textOf = async (source: TextSource) => {
  let text = ''
  for await (const piece of source.text()) text += piece
  return text
}

const failure = async (name: string, content: string | Uint8Array, limits?: SubprocessLimits) => {
  try {
    await textOf(await written(name, content, limits))
  } catch (thrown) {
    return toGraphmillError(thrown)
  }
  throw new Error(`${name} was read`)
}

describe('HTML', () => {
  test('becomes its text: no links, scripts or styles', async () => {
    const page = `<!DOCTYPE html><html><head><title>T</title><style>p { color: red }</style></head><body>
      <h1>On mills</h1><p>A <a href="http://x.example/">mill</a> grinds &amp; turns.</p><script>steal()</script>
      <ul><li>stone</li><li>wheel</li></ul></body></html>`
    const source = await written('mills.html', page)
    expect(source.mediaType).toBe('text/html')
    const text = await textOf(source)
    expect(text).toMatch(/^On mills\n+A mill grinds & turns\.\n+ \* stone\n \* wheel$/)
  })

  test.each([
    ['a caption', '<table><caption>stone</caption><tr><td>wheel</td></tr></table>'],
    ['a form among rows', '<table><form><tr><td>stone</td><td>wheel</td></tr></form></table>'],
    ['a form among cells', '<table><tr><form><td>stone</td></form><td>wheel</td></tr></table>'],
    ['text beside cells', '<table>stone<tr><td>wheel</td></tr></table>'],
    ['cells without rows', '<table><td>stone</td><td>wheel</td></table>'],
    [
      'a table in a row',
      '<table><tr><table><tr><td>stone</td></tr></table></tr><tr><td>wheel</td></tr></table>',
    ],
  ])('leaves nothing out of a table with %s', (_, page) => {
    expect(htmlText(Buffer.from(page)).trim().split(/\s+/)).toEqual(['stone', 'wheel'])
  })

  test('in the encoding that it names', async () => {
    const page = Buffer.from('<html><meta charset="iso-8859-1"><p>Mühle</p></html>', 'latin1')
    expect(await textOf(await written('latin.htm', page))).toBe('Mühle')
    const lying = Buffer.from('<html><meta charset="utf-8"><p>Mühle</p></html>', 'latin1')
    expect(await failure('lying.htm', lying)).toMatchObject({ code: 'document_not_utf8' })
    expect(await failure('odd.htm', '<meta charset="no-such">')).toMatchObject({ code: 'document_not_utf8' })
  })

  test('with 20,000 nested tags is read', async () => {
    const page = `<html>${'<div>'.repeat(20_000)}A mill grinds.${'</div>'.repeat(20_000)}</html>`
    expect(await textOf(await written('deep.html', page))).toBe('A mill grinds.')
    // Here the stack is that of any thread.
    expect(() => htmlText(Buffer.from(page))).toThrow(
      expect.objectContaining({ code: 'document_broken', message: 'its tags are nested too deep.' }),
    )
  })
})

describe('a cell that claims to span', () => {
  test.each(['100000000', '1e9', '-1', '0', '0.5', 'Infinity', 'x', '99999999999999999999'])(
    '%s columns and rows is read, with its neighbours',
    (span) => {
      const cell = `<td colspan="${span}" rowspan="${span}">stone</td>`
      const page = `<table><tr>${cell}<th>wheel</th></tr><tr><td>water</td></tr></table>`
      const before = process.memoryUsage().rss
      const words = htmlText(Buffer.from(page)).split(/\s+/).sort()
      expect(words).toEqual(['stone', 'water', 'wheel'])
      expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024)
    },
  )

  test('two columns spans two', () => {
    const page =
      '<table><tr><td colspan=2>mill</td><td>c</td></tr><tr><td>a</td><td>b</td><td>d</td></tr></table>'
    expect(htmlText(Buffer.from(page))).toBe('mill    c\na   b   d')
  })
})

describe('PDF', () => {
  test('becomes its text, with the places where pages begin', async () => {
    const source = await written('two.pdf', await makePdf(['A mill\nis a machine.', '', 'It grinds.']))
    const text = await textOf(source)
    expect(text).toBe('A mill\nis a machine.\n\n\n\nIt grinds.')
    expect(source).toMatchObject({ mediaType: 'application/pdf', title: 'two.pdf' })
    expect(source.pages!.map((start) => text.slice(start, start + 6))).toEqual([
      'A mill',
      '\n\nIt g',
      'It gri',
    ])
  })

  test('of 2,000 pages is read completely, and the event loop is not blocked', async () => {
    const bytes = await makePdf(Array.from({ length: 2000 }, (_, n) => `This is page ${n + 1}.`))
    let turns = 0
    const clock = setInterval(() => turns++, 10)
    const source = await written('long.pdf', bytes)
    clearInterval(clock)
    const text = await textOf(source)
    expect(source.pages).toHaveLength(2000)
    expect(text.slice(source.pages![1998])).toBe('This is page 1999.\n\nThis is page 2000.')
    expect(turns).toBeGreaterThan(20)
  })

  test.each([
    ['too many pages', /\/Count 3/, '/Count 9'],
    ['far too many pages', /\/Count 3/, '/Count 999999999'],
    ['too few pages', /\/Count 3/, '/Count 1'],
    ['fewer than no pages', /\/Count 3/, '/Count -1'],
    ['streams that are longer than the file', /\/Length \d+/g, '/Length 9999999'],
    ['a table at the wrong place', /startxref\n\d+/, 'startxref\n99999999'],
  ])('that claims %s is read completely', async (_, pattern, replacement) => {
    const pdf = forge(await makePdf(['one', 'two', 'three']), pattern, replacement)
    const source = await written('liar.pdf', pdf)
    expect(await textOf(source)).toBe('one\n\ntwo\n\nthree')
    expect(source.pages).toHaveLength(3)
  })

  test.each([1, 2, 0, -1, 9])(
    'with a compressed tree that claims %i pages of three is read completely',
    async (count) => {
      const pdf = await makePdf(['one', 'two', 'three'], { objectStreams: true, count })
      expect(Buffer.from(pdf).includes('/Kids')).toBe(false)
      const source = await written('compressed-liar.pdf', pdf)
      expect(await textOf(source)).toBe('one\n\ntwo\n\nthree')
      expect(source.pages).toHaveLength(3)
    },
  )

  test.each([true, false])(
    'from which a page was removed later has only the remaining pages (compressed: %s)',
    async (objectStreams) => {
      const pdf = await makePdf(['one', 'two', 'three'], { objectStreams })
      const { pagesRef, kids } = await PDFDocument.load(pdf).then(({ catalog }) => ({
        pagesRef: catalog.get(PDFName.of('Pages')) as PDFRef,
        kids: catalog.Pages().Kids().asArray(),
      }))
      const left = `<< /Type /Pages /Kids [${kids[0]} ${kids[2]}] /Count 2 >>`
      const shorter = update(pdf, pagesRef.objectNumber, left)
      expect(openTree(shorter).pageObjects).toBe(3)
      expect(await textOf(await written('shorter.pdf', shorter))).toBe('one\n\nthree')
      const lying = update(pdf, pagesRef.objectNumber, left.replace('2 >>', '1 >>'))
      expect(await textOf(await written('shorter-liar.pdf', lying))).toBe('one\n\nthree')
    },
  )

  test('that cannot be read says why', async () => {
    const pdf = await makePdf(['A mill is a machine.'])
    expect(await failure('locked.pdf', encrypt(pdf))).toMatchObject({ code: 'document_encrypted' })
    expect(await failure('scan.pdf', await makePdf(['', '']))).toMatchObject({ code: 'document_scanned' })
    expect(await failure('none.pdf', await makePdf([]))).toMatchObject({ code: 'document_empty' })
    const half = await failure('half.pdf', pdf.slice(0, pdf.length / 2))
    expect(half).toMatchObject({ code: 'document_broken', remedy: expect.stringMatching(/save it again/) })
    expect(await failure('empty.pdf', '')).toMatchObject({ code: 'document_empty' })
    const text = await failure('text.pdf', 'This is no PDF.')
    expect(text).toMatchObject({ code: 'document_broken' })
    expect(text.message).toContain('text.pdf: it is no PDF')
  })

  test.each(Object.entries(pdfBombs(2048)))(
    'that unpacks to more than the limit, by %s, is too large, and this process never holds it',
    async (kind, pdf) => {
      const limits = { memoryMb: 256, seconds: 60 }
      const before = process.memoryUsage().rss
      const bomb = await failure(`${kind}.pdf`, pdf, limits)
      expect(bomb).toMatchObject({
        code: 'document_too_large',
        message: expect.stringMatching(/(256 MiB .*--document-memory|60 s \(--document-timeout)/),
      })
      expect(process.memoryUsage().rss - before).toBeLessThan(256 * 1024 * 1024)
    },
    120_000,
  )

  test('of 400 kB of keywords of the page tree is read in linear time', () => {
    for (const word of ['/ObjStm stream\n', '1 0 obj /ObjStm ', '/ObjStm ', '/Type ', '1 0 obj stream\n']) {
      const start = performance.now()
      openTree(Buffer.from(word.repeat(400_000 / word.length)))
      expect(performance.now() - start, word).toBeLessThan(3000)
    }
  })

  test('larger than a quarter of the memory is not even read', async () => {
    const limits = { memoryMb: 128, seconds: 60 }
    const large = await failure('large.pdf', new Uint8Array(33 * 1024 * 1024), limits)
    expect(large).toMatchObject({
      code: 'document_too_large',
      message: expect.stringContaining('more than 32 MiB, a quarter of --document-memory'),
    })
  })

  test('that nobody waits for any more is abandoned', async () => {
    await writeFile(join(folder, 'long.pdf'), await makePdf(Array.from({ length: 500 }, () => 'mill')))
    const [source] = await findDocuments(join(folder, 'long.pdf'), never)
    const stop = new AbortController()
    const reading = source!.prepare!(stop.signal)
    stop.abort(new Error('enough'))
    await expect(reading).rejects.toThrow('enough')
  })
})

describe('a file whose extension says nothing', () => {
  test('is text, unless its first bytes say that it is something else', async () => {
    expect(await textOf(await written('notes', 'A mill.'))).toBe('A mill.')
    expect(await textOf(await written('paper.bin', await makePdf(['A mill.'])))).toBe('A mill.')
    expect(await textOf(await written('page.php', ' <!doctype HTML><p>A mill.'))).toBe('A mill.')
    expect(await failure('picture.png', Buffer.from('89504e470d0a1a0a0000000d', 'hex'))).toMatchObject({
      code: 'document_unsupported',
    })
  })

  test('is never guessed to be encoded', async () => {
    const encoded = Buffer.from('A mill is a machine.').toString('base64')
    expect(await textOf(await written('encoded', encoded))).toBe(encoded)
    expect(await textOf(await written('encoded.txt', encoded))).toBe(encoded)
  })
})

test('a folder gives its text, Markdown, HTML and PDF files', async () => {
  const inner = join(folder, 'library', 'inner')
  await mkdir(inner, { recursive: true })
  for (const name of ['b.PDF', 'a.txt', 'c.html', 'd.md', 'e.png']) await writeFile(join(inner, name), 'x')
  const found = await findDocuments(join(folder, 'library'), never)
  expect(found.map(({ title, mediaType }) => [title, mediaType])).toEqual([
    ['a.txt', 'text/plain'],
    ['b.PDF', 'application/pdf'],
    ['c.html', 'text/html'],
    ['d.md', 'text/markdown'],
  ])
})

test('a folder is read while its documents are, in the order of their paths', async () => {
  const large = join(folder, 'large')
  for (const inner of ['a', 'b']) await mkdir(join(large, inner), { recursive: true })
  for (const name of ['a-1.txt', 'a/2.txt', 'a.txt', 'd.txt']) await writeFile(join(large, name), 'x')
  const documents = walkDocuments(large, never)
  const first = await documents.next()
  await writeFile(join(large, 'b', '3.txt'), 'x')
  const others: string[] = []
  for await (const { name } of documents) others.push(relative(large, name))
  expect(relative(large, first.value!.name)).toBe('a-1.txt')
  expect(others).toEqual(['a.txt', 'a/2.txt', 'b/3.txt', 'd.txt'])
})

test('a short file is read once, and a long one is never held', async () => {
  const short = await written('short.txt', 'A mill grinds.')
  const long = await written('long.txt', 'A mill grinds.\n'.repeat(30_000))
  for (const name of ['short.txt', 'long.txt']) await rm(join(folder, name))
  expect([await textOf(short), await textOf(short)]).toEqual(['A mill grinds.', 'A mill grinds.'])
  await expect(textOf(long)).rejects.toMatchObject({ code: 'document_unreadable' })
})

test('a file whose size is not known, or that grows while it is read, is read completely', async () => {
  if (process.platform === 'linux') {
    const [status] = await findDocuments('/proc/self/status', never)
    expect(await textOf(await status!.prepare!(never))).toContain('VmRSS')
  }
  const path = join(folder, 'growing.txt')
  await writeFile(path, 'A mill grinds.')
  const [growing] = await findDocuments(path, never)
  await writeFile(path, 'A mill grinds. And it turns.')
  expect(await textOf(await growing!.prepare!(never))).toBe('A mill grinds. And it turns.')
})

/** The paths that are skipped, with why. */
const found = async (named: string, options: FindOptions = {}) => {
  const skipped: SkippedFile[] = []
  const files = await findDocuments(named, never, { ...options, onSkipped: (some) => skipped.push(...some) })
  return {
    files: files.map(({ name }) => relative(folder, name)).sort(),
    skipped: skipped.map(({ path, why }) => `${relative(folder, path)}: ${why}`).sort(),
  }
}

test('files with other extensions are reported for a folder and its subfolders, but not for a pattern', async () => {
  const mixed = join(folder, 'mixed')
  await mkdir(join(mixed, 'inner'), { recursive: true })
  for (const name of ['a.txt', 'README', 'notes.rst', 'inner/b.CSV']) await writeFile(join(mixed, name), 'x')
  await symlink('README', join(mixed, 'link'))
  await symlink('inner', join(mixed, 'link-to-folder'))
  expect(await found(mixed)).toEqual({
    files: ['mixed/a.txt'],
    skipped: ['README', 'inner/b.CSV', 'link', 'notes.rst'].map((name) => `mixed/${name}: ending`),
  })
  expect((await found(join(mixed, '*.txt'))).skipped).toEqual([])
})

describe.skipIf(process.platform === 'win32')('what stands in a folder, but is no file of it', () => {
  let server: Server
  beforeAll(async () => {
    for (const name of ['loaded/inner', 'elsewhere/deep'])
      await mkdir(join(folder, name), { recursive: true })
    for (const name of ['loaded/a.txt', 'loaded/inner/b.txt', 'elsewhere/secret.txt', 'elsewhere/deep/c.txt'])
      await writeFile(join(folder, name), 'A mill grinds.')
    const links = {
      'inside.txt': 'inner/b.txt',
      loop: '.',
      up: '..',
      'secret.txt': '../elsewhere/secret.txt',
      elsewhere: '../elsewhere',
      'zero.txt': '/dev/zero',
      'broken.txt': 'nothing',
    }
    for (const [name, target] of Object.entries(links)) await symlink(target, join(folder, 'loaded', name))
    await symlink('../loaded', join(folder, 'elsewhere', 'back'))
    execFileSync('mkfifo', [join(folder, 'loaded', 'pipe.txt')])
    await symlink('pipe.txt', join(folder, 'loaded', 'to-pipe.txt'))
    server = createServer().listen(join(folder, 'loaded', 'socket.txt'))
    await once(server, 'listening')
  })
  afterAll(() => void server.close())

  const special = ['loaded/pipe.txt: pipe', 'loaded/socket.txt: socket', 'loaded/to-pipe.txt: pipe']

  test('is skipped and named: pipes, sockets, devices, and links that lead out of it', async () => {
    expect(await found(join(folder, 'loaded'))).toEqual({
      files: ['loaded/a.txt', 'loaded/broken.txt', 'loaded/inner/b.txt', 'loaded/inside.txt'],
      skipped: [
        'loaded/elsewhere: outside',
        ...special.slice(0, 1),
        'loaded/secret.txt: outside',
        ...special.slice(1),
        'loaded/up: outside',
        'loaded/zero.txt: outside',
      ],
    })
  })

  test('is read when links are followed, each folder once, even when links form a cycle', async () => {
    const followed = await found(join(folder, 'loaded'), { followLinks: true })
    expect(followed.files).toEqual(
      expect.arrayContaining(['loaded/a.txt', 'loaded/secret.txt', 'loaded/elsewhere/deep/c.txt']),
    )
    expect(followed.files.filter((file) => file.endsWith('c.txt'))).toHaveLength(1)
    expect(followed.skipped).toEqual(expect.arrayContaining([...special, 'loaded/zero.txt: device']))
  })

  test('is not what a pattern finds, unless links are followed', async () => {
    const pattern = join(folder, 'loaded', '**', '*.txt')
    const plain = await found(pattern)
    expect(plain.files).toEqual(['loaded/a.txt', 'loaded/inner/b.txt', 'loaded/inside.txt'])
    expect(plain.skipped).toEqual(
      expect.arrayContaining([...special, 'loaded/secret.txt: outside', 'loaded/up: outside']),
    )
    expect((await found(join(folder, 'loaded', 'a*'))).skipped).toEqual([])
    const followed = await found(pattern, { followLinks: true })
    expect(followed.files).toEqual(expect.arrayContaining(['loaded/secret.txt', 'loaded/a.txt']))
  })
})

test('a pattern finds a file once, even when several links lead to it', async () => {
  const shelf = join(folder, 'shelf')
  await mkdir(shelf)
  await writeFile(join(shelf, 'a.txt'), 'A mill.')
  await symlink('..', join(shelf, 'up'))
  const found = await findDocuments(join(folder, '**', 'a.txt'), never)
  expect(found.map(({ uri }) => uri).filter((uri) => uri.includes('shelf'))).toEqual([
    pathToFileURL(join(shelf, 'a.txt')).href,
  ])
})

test.skipIf(process.platform === 'win32')('a pipe is read once, and given as often as needed', async () => {
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const [[source]] = await Promise.all([findDocuments(pipe, never), writeFile(pipe, 'A mill grinds.')])
  expect([await textOf(source!), await textOf(source!)]).toEqual(['A mill grinds.', 'A mill grinds.'])
})

test.skipIf(process.platform === 'win32').each([
  ['is no text', 'document_unsupported', Buffer.alloc(16 * 1024)],
  [
    'is too large',
    'document_too_large',
    Buffer.concat([Buffer.from('%PDF-'), Buffer.alloc(33 * 1024 * 1024)]),
  ],
] as const)('a pipe that %s is refused before its end, which may never come', async (_, code, bytes) => {
  const pipe = join(folder, code)
  execFileSync('mkfifo', [pipe])
  const reading = findDocuments(pipe, never, { limits: { memoryMb: 128, seconds: 60 } })
  const writer = await open(pipe, 'w')
  try {
    // The pipe breaks when its reader has gone.
    const writing = writer.writeFile(bytes).catch(() => undefined)
    await expect(reading).rejects.toMatchObject({ code })
    await writing
  } finally {
    await writer.close()
  }
})

test('the error of a document without text has its path, which no other document shares', async () => {
  for (const [name, content] of [
    ['blank.txt', ' \n'],
    ['blank.html', '<p> </p>'],
    ['blank', ''],
  ] as const)
    expect(await failure(name, content)).toMatchObject({
      code: 'document_empty',
      message: `${join(folder, name)}: it holds no text.`,
    })
})

test('the error of text that is not UTF-8 has its place', async () => {
  const error = await failure('bad.txt', Buffer.from('Caf\u00e9. \xff', 'latin1'))
  expect(error).toMatchObject({ code: 'document_not_utf8', message: expect.stringMatching(/near byte 3\./) })
  const later = await failure('bad-later.txt', Buffer.concat([Buffer.from('Café. '), Buffer.from([0xff])]))
  expect(later.message).toMatch(/near byte 7\./)
})
