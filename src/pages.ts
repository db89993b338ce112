// Page numbers: the pages of a document part, and the page of a position in the document.

export interface PagesOfPart {
  /** Where the pages begin in the document; the first may begin before the part. Empty when there are no pages. */
  readonly pages: readonly number[]
  /** The number of the first of them, from 1. */
  readonly firstPage: number
}

/** The pages that a part contains at least partly. `starts`: where every page of the document begins, in ascending order. */
export function pagesWithin(
  starts: readonly number[],
  part: { readonly offset: number; readonly text: string },
): PagesOfPart {
  const end = part.offset + part.text.length
  const first = Math.max(
    0,
    starts.findLastIndex((start) => start <= part.offset),
  )
  return { firstPage: first + 1, pages: starts.slice(first).filter((start) => start < end) }
}

/** The page of a position in the document; null when there are no pages. */
export function pageAt({ pages, firstPage }: PagesOfPart, offset: number): number | null {
  const index = pages.findLastIndex((start) => start <= offset)
  return index < 0 ? null : firstPage + index
}
