// @ts-check
// The page dist/api.md: the declaration and the comment of everything that the package exports, from the declarations of the build. The
// page is a part of the build, and so never stale. (typedoc needs the API of TypeScript 6 or older.)
// Plain JavaScript, because the build runs it.
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * @typedef {object} Entry
 * @property {string} name as it is exported
 * @property {string} comment as Markdown; empty when there is none
 * @property {string} code the declaration
 * @property {string} group the comment above its export
 */

/**
 * Everything that the index exports, in its order. Throws when a declaration is not found.
 * @param {string} index the source, for the groups and their order
 * @param {string} declarations the folder of the declarations of `src`
 * @returns {Entry[]}
 */
export function exportsOf(index, declarations) {
  let group = ''
  const entries = []
  const statement = /^\/\/ (.+)$|^export (?:type )?\{([^}]*)\} from '(\.[^']+)\.ts'/gm
  for (const [, heading, names = '', path] of index.matchAll(statement)) {
    if (heading !== undefined) group = heading
    else
      for (const each of names.split(',').filter((part) => part.trim() !== '')) {
        const [, own, name = own] = /^\s*(?:type )?(\w+)(?: as (\w+))?\s*$/.exec(each) ?? []
        if (own === undefined || name === undefined) throw new Error(`not understood: ${each}`)
        entries.push({ name, group, ...declarationOf(own, join(declarations, `${path}.d.ts`)) })
      }
  }
  return entries
}

/**
 * The declaration of a name in a file, or in the file that it is exported from there.
 * @param {string} name
 * @param {string} file
 * @returns {{ comment: string, code: string }}
 */
function declarationOf(name, file) {
  const text = readFileSync(file, 'utf8')
  const kinds = '(?:declare )?(?:function|const|class|interface|type)'
  const found = new RegExp(`^(/\\*\\*(?:(?!\\*/)[^])*\\*/\\n)?export ${kinds} ${name}\\b`, 'm').exec(text)
  if (found) {
    const comments = found[1] ?? ''
    const code = statementAt(text, found.index + comments.length)
    return { comment: commentText(comments), code: code.replace(/^export (declare )?/, '') }
  }
  for (const [, names = '', path] of text.matchAll(
    /^(?:export|import) (?:type )?\{([^}]*)\} from '([^']+)\.ts'/gm,
  ))
    if (new RegExp(`\\b${name}\\b`).test(names))
      return declarationOf(name, join(dirname(file), `${path}.d.ts`))
  throw new Error(`${file} declares no ${name}`)
}

/**
 * The statement that begins here: up to the end of the line on which all brackets are closed.
 * @param {string} text
 * @param {number} start
 */
function statementAt(text, start) {
  const lines = text.slice(start).split('\n')
  const kept = []
  let depth = 0
  for (const line of lines) {
    // Overloads follow one another.
    if (depth === 0 && kept.length > 0) break
    kept.push(line)
    if (/^\s*(\/\*\*|\*)/.test(line)) continue
    const bare = line.replace(/'[^']*'|"[^"]*"|\/\/.*|=>/g, '')
    for (const each of bare) depth += '{[(<'.includes(each) ? 1 : '}])>'.includes(each) ? -1 : 0
  }
  return kept.join('\n')
}

/**
 * @param {string} comment
 */
function commentText(comment) {
  const lines = comment
    .replace(/^\/\*\*|\*\/\s*$/g, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd())
  const [text = '', ...examples] = lines
    .join('\n')
    .trim()
    .split(/^@example[ \n]?/m)
  const blocks = examples.map((code) => `\`\`\`js\n${code.trim()}\n\`\`\``)
  return [text.trim().replace(/^@throws /gm, 'Throws '), ...blocks].filter(Boolean).join('\n\n')
}

/**
 * @param {readonly Entry[]} entries
 */
export function apiPage(entries) {
  const groups = [...new Set(entries.map(({ group }) => group))]
  const inGroup = (/** @type {string} */ group) => entries.filter((entry) => entry.group === group)
  const contents = groups.map(
    (group) =>
      `- ${group}: ${inGroup(group)
        .map(({ name }) => `[${name}](#${name.toLowerCase()})`)
        .join(', ')}`,
  )
  const sections = groups.map((group) => [
    `## ${group}`,
    ...inGroup(group).map(
      ({ name, comment, code }) => `### ${name}\n\n${comment}\n\n\`\`\`ts\n${code}\n\`\`\``,
    ),
  ])
  return `# API\n\nEverything that \`import … from 'graphmill'\` gives, from its declarations. [The library](../docs/library.md) is the guide.\n\n${contents.join('\n')}\n\n${sections.flat().join('\n\n')}\n`
}
