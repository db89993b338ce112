// A text without the tags of HTML in it: blocks become paragraphs, and navigation, scripts, tables and forms are left out.

const tag = /<(\/?)([a-z][a-z0-9]{0,15})(?:\s[^<>]{0,2000})?\/?>|<!--/gi

/** Elements whose content is no prose. */
const skipped = new Set(
  'script style template noscript svg nav header footer aside form select button table pre code head menu iframe math'.split(
    ' ',
  ),
)

const inline = new Set(
  'a abbr b bdi cite dfn em i mark q s small span strong sub sup u time var wbr font'.split(' '),
)

const entities: Readonly<Record<string, string>> = {
  amp: '&',
  apos: "'",
  gt: '>',
  hellip: '…',
  ldquo: '“',
  lsquo: '‘',
  lt: '<',
  mdash: '—',
  nbsp: ' ',
  ndash: '–',
  quot: '"',
  rdquo: '”',
  rsquo: '’',
}

/** The text unchanged if it has no tags. */
export function markupFree(text: string): string {
  tag.lastIndex = 0
  // `<name>` in prose or code is no page.
  if (!/<\/[a-z][a-z0-9]{0,15}>/i.test(text)) return text
  const lower = text.toLowerCase()
  /** Elements that are not closed any more. */
  const unclosed = new Set<string>()
  let out = ''
  let at = 0
  for (let found = tag.exec(text); found; found = tag.exec(text)) {
    const [whole, closing, name] = found
    out += text.slice(at, found.index)
    at = found.index + whole.length
    const element = name?.toLowerCase() ?? '--'
    const opens = element === '--' || (closing === '' && skipped.has(element))
    if (opens && !unclosed.has(element)) {
      const end = lower.indexOf(element === '--' ? '-->' : `</${element}`, at)
      if (end < 0) unclosed.add(element)
      else at = end + (element === '--' ? 3 : 0)
    }
    out += inline.has(element) ? '' : '\n\n'
    tag.lastIndex = at
  }
  out += text.slice(at)
  return out.replace(/&([a-z]{2,6});/g, (whole, name: string) => entities[name] ?? whole)
}
