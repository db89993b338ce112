// The task of the child process that extracts the text of HTML and PDF. It loads only what its document needs.
import type { ExtractTask } from './extract.ts'

/** The texts of the pages; one text when the document has no pages. */
export async function run({ bytes, mediaType }: ExtractTask): Promise<string[]> {
  if (mediaType === 'application/pdf') return (await import('./pdf.ts')).pdfPages(bytes)
  return [(await import('./html.ts')).htmlText(bytes)]
}
