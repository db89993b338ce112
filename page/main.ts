// The page of a graph: a drawing, a search, a filter by kind of fact, and a table of the facts of what is chosen.
import type { PageData, PageFact, PageSource } from './data.ts'
import { createDrawing } from './drawing.ts'

const data: PageData = JSON.parse(document.getElementById('data')!.textContent!)
const { entities, predicates, facts, kinds } = data

/** Rows that the table shows at first, and adds each time. */
const rowsAtOnce = 100
const mostResults = 20

const part = <E extends HTMLElement>(id: string) => document.getElementById(id) as E
const query = part<HTMLInputElement>('query')

/** The facts of each entity, as subject or object, by index. */
const factsOf: number[][] = entities.map(() => [])
for (const [at, [subject, , object]] of facts.entries()) {
  factsOf[subject]!.push(at)
  if (typeof object === 'number' && object !== subject) factsOf[object]!.push(at)
}
const lowerNames = entities.map(([name]) => name.toLowerCase())

const shownKinds = new Set(kinds.keys())
let chosen: number | undefined
let rows = rowsAtOnce

const drawing = createDrawing(part('graph'), data, {
  choose: (entity) => choose(entity),
  isShown: (fact) => shownKinds.has(fact[3]),
})

function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  ...content: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name)
  made.append(...content)
  return made
}

function entityButton(entity: number): HTMLButtonElement {
  const button = element('button', entities[entity]![0])
  button.type = 'button'
  button.addEventListener('click', () => choose(entity))
  return button
}

function choose(entity: number | undefined): void {
  chosen = entity
  rows = rowsAtOnce
  part('results').replaceChildren()
  show()
  if (entity !== undefined) part('name').focus({ preventScroll: true })
}

function show(): void {
  const [name, iri] = chosen === undefined ? ['All facts', ''] : entities[chosen]!
  part('name').textContent = name
  part('iri').textContent = iri
  const all = chosen === undefined ? [...facts.keys()] : factsOf[chosen]!
  const shown = all.filter((at) => shownKinds.has(facts[at]![3]))
  part('caption').textContent = `${shown.length} ${shown.length === 1 ? 'fact' : 'facts'}`
  part('facts').replaceChildren(...shown.slice(0, rows).map((at) => row(facts[at]!)))
  part('more').hidden = shown.length <= rows
  part('counts').textContent = `${entities.length} entities, ${facts.length} facts`
  part('drawn').textContent = drawing.show(chosen)
}

function row([subject, predicate, object, , sources, isUngrounded]: PageFact): HTMLTableRowElement {
  const value = typeof object === 'number' ? entityButton(object) : object
  const places = isUngrounded ? ['not found in the text'] : sources.map(place)
  return element(
    'tr',
    element('td', entityButton(subject)),
    element('td', predicates[predicate]!),
    element('td', value),
    element('td', ...places),
  )
}

function place([text, title, start, end, page]: PageSource): HTMLElement {
  const where = [
    title,
    page === null ? '' : `page ${page}`,
    start === null ? '' : `characters ${start} to ${end}`,
  ]
  const footer = element('footer', where.filter((word) => word !== '').join(', '))
  return element('blockquote', text === '' ? '' : `“${text}”`, footer)
}

function search(): void {
  const wanted = query.value.trim().toLowerCase()
  const found = wanted === '' ? [] : find(wanted)
  part('results').replaceChildren(...found.map((entity) => element('li', entityButton(entity))))
  if (wanted !== '' && found.length === 0)
    part('results').replaceChildren(element('li', 'No entity has this in its name.'))
}

/** Names that begin with the words come first, then those with more facts. */
function find(wanted: string): number[] {
  const found: number[] = []
  for (const [entity, name] of lowerNames.entries()) if (name.includes(wanted)) found.push(entity)
  const begins = (entity: number) => Number(lowerNames[entity]!.startsWith(wanted))
  return found
    .sort((a, b) => begins(b) - begins(a) || factsOf[b]!.length - factsOf[a]!.length)
    .slice(0, mostResults)
}

part('search').addEventListener('submit', (event) => {
  event.preventDefault()
  const [first] = query.value.trim() === '' ? [] : find(query.value.trim().toLowerCase())
  choose(first)
})
query.addEventListener('input', search)
part('more').addEventListener('click', () => {
  rows += rowsAtOnce
  show()
})
for (const [kind, name] of kinds.entries()) {
  const box = element('input')
  Object.assign(box, { type: 'checkbox', checked: true, id: `kind-${name}` })
  box.addEventListener('change', () => {
    if (box.checked) shownKinds.add(kind)
    else shownKinds.delete(kind)
    show()
  })
  const label = element('label', box, ` ${name}`)
  part('kinds').append(label)
}
show()
document.documentElement.dataset['ready'] = 'true'
