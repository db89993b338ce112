// Dates as models write them, in ISO 8601 or in English, and whether the words beside a year in a text say another date.

export interface DateValue {
  readonly year: number
  /** From 1. */
  readonly month: number
  readonly day: number | undefined
}

const months = 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ')
const monthWord =
  /^(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)$/i

/** From 1; undefined for another word. */
function monthOf(word: string): number | undefined {
  return monthWord.test(word) ? months.indexOf(word.slice(0, 3).toLowerCase()) + 1 : undefined
}

/** The date that a value is: 1821-05-01, 1 May 1821, May 1, 1821, or May 1821. */
export function dateOf(value: string): DateValue | undefined {
  const iso = /^\s*(\d{4})-(\d\d)(?:-(\d\d))?(?:[T ]\d\d:.*)?\s*$/.exec(value)
  if (iso) return { year: Number(iso[1]), month: Number(iso[2]), day: iso[3] ? Number(iso[3]) : undefined }
  const dayFirst = /^\s*(?:(\d\d?)(?:st|nd|rd|th)?\s+)?(\p{L}+)\.?,?\s+(\d{4})\s*$/u.exec(value)
  const monthFirst = /^\s*(\p{L}+)\.?\s+(\d\d?)(?:st|nd|rd|th)?,?\s+(\d{4})\s*$/u.exec(value)
  const [day, word, year] = dayFirst?.slice(1) ?? [monthFirst?.[2], monthFirst?.[1], monthFirst?.[3]]
  const month = word === undefined ? undefined : monthOf(word)
  return month === undefined ? undefined : { year: Number(year), month, day: day ? Number(day) : undefined }
}

/** Whether these words, which stand around a year, name another month, or another day of the month. */
export function isOtherDate(words: readonly string[], { month, day }: DateValue): boolean {
  const named = words.flatMap((word) => monthOf(word) ?? [])
  if (named.length === 0) return false
  const days = words.filter((word) => /^\d\d?$/.test(word) && Number(word) <= 31).map(Number)
  return !named.includes(month) || (day !== undefined && days.length > 0 && !days.includes(day))
}
