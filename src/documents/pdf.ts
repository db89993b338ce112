// The text of a PDF, page by page, with pdf.js. It runs in the child process, because it may take seconds and any amount of memory.
import { getDocumentProxy } from 'unpdf'
import { GraphmillError } from '../errors.ts'
import { openTree } from './pdf-tree.ts'

type PdfDocument = Awaited<ReturnType<typeof getDocumentProxy>>
type TextItems = Awaited<ReturnType<Awaited<ReturnType<PdfDocument['getPage']>>['getTextContent']>>['items']

/** The texts of the pages. Throws `document_encrypted`, `document_broken`, `document_empty`, `document_scanned`. */
export async function pdfPages(bytes: Uint8Array): Promise<string[]> {
  if (bytes.length === 0) throw new GraphmillError('document_empty', 'the file holds nothing.')
  const pdf = await openWhole(bytes)
  try {
    if (pdf.numPages < 1) throw new GraphmillError('document_empty', 'it has no pages.')
    const pages: string[] = []
    for (let number = 1; number <= pdf.numPages; number++) pages.push(await pageText(pdf, number))
    if (pages.every((page) => page.trim() === ''))
      throw new GraphmillError('document_scanned', `there is no text on its ${pages.length} pages.`)
    return pages
  } finally {
    await pdf.loadingTask.destroy()
  }
}

async function pageText(pdf: PdfDocument, number: number): Promise<string> {
  try {
    const page = await pdf.getPage(number)
    const { items } = await page.getTextContent()
    page.cleanup()
    return linesOf(items)
  } catch (cause) {
    const place = `page ${number} of ${pdf.numPages}`
    throw new GraphmillError('document_broken', `${place} can't be read: ${(cause as Error).message}`, {
      cause,
    })
  }
}

/** The document with every page of the tree, whatever number of pages it claims. */
async function openWhole(bytes: Uint8Array): Promise<PdfDocument> {
  const pdf = await open(bytes)
  const tree = openTree(bytes)
  if (tree.pageObjects <= Math.max(0, pdf.numPages)) return pdf
  // Pages that were removed from the tree are still objects: only the count of the tree itself can tell.
  const recounted = await open(tree.claimingTooMany()).catch(() => undefined)
  if (recounted === undefined || recounted.numPages <= pdf.numPages) {
    await recounted?.loadingTask.destroy()
    return pdf
  }
  await pdf.loadingTask.destroy()
  return recounted
}

async function open(bytes: Uint8Array): Promise<PdfDocument> {
  try {
    // pdf.js takes the bytes away from its caller.
    return await getDocumentProxy(Uint8Array.from(bytes), { verbosity: 0 })
  } catch (cause) {
    if ((cause as Error).name === 'PasswordException')
      throw new GraphmillError('document_encrypted', 'it asks for a password.', { cause })
    throw new GraphmillError(
      'document_broken',
      `it is no PDF, or a broken one: ${(cause as Error).message}`,
      {
        cause,
      },
    )
  }
}

interface PageLine {
  text: string
  /** Height above the foot of the page, in points. */
  readonly y: number
}

/** The lines of a page, with an empty line where a gap is clearly wider than usual. */
function linesOf(items: TextItems): string {
  const lines: PageLine[] = []
  let ended = true
  for (const item of items) {
    if (!('str' in item)) continue
    if (ended) lines.push({ text: '', y: item.transform[5] as number })
    lines.at(-1)!.text += item.str
    ended = item.hasEOL
  }
  const written = lines.filter(({ text }) => text.trim() !== '')
  const gaps = written.slice(1).map(({ y }, at) => written[at]!.y - y)
  const down = gaps.filter((gap) => gap > 0).sort((one, other) => one - other)
  const usual = down[down.length >> 1] ?? 0
  return written
    .map(({ text }, at) => (at > 0 && gaps[at - 1]! > 1.4 * usual ? `\n${text}` : text))
    .join('\n')
}
