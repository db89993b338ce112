// What models do to JSON Lines: each function damages the lines of a reply in one way that real models do. The facts stay readable for
// people, so that all of them should be recovered.

export interface DamagedReply {
  readonly text: string
  /** Default `stop`. */
  readonly finishReason?: 'length'
}

/** `lines` is not empty. `random` gives numbers from 0 to below 1. */
type Damage = (lines: readonly string[], random: () => number) => DamagedReply

const all = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join('')

const pretty = (line: string) => JSON.stringify(JSON.parse(line), null, 2)

export const damages = {
  'code fence': (lines) => ({ text: `\`\`\`json\n${all(lines)}\`\`\`\n` }),
  prose: (lines) => ({
    text: `Sure! Here are the facts that I found in the text:\n\n${all(lines)}\nLet me know if you need anything else.\n`,
  }),
  'trailing commas': (lines) => ({ text: lines.map((line) => `${line.slice(0, -1)},},\n`).join('') }),
  'single quotes': (lines) => ({ text: all(lines.map((line) => pythonText(JSON.parse(line)))) }),
  list: (lines) => ({ text: `[\n${lines.map((line) => `  ${line}`).join(',\n')}\n]\n` }),
  thinking: (lines) => ({
    text: `<think>\nThe user wants JSON Lines. Perhaps {"entity": "nothing", "definition": "a first idea"}? No.\n</think>\n\n${all(lines)}`,
  }),
  'several lines': (lines) => ({ text: all(lines.map(pretty)) }),
  'mixed lines': (lines, random) => ({
    text: lines
      .map((line) => {
        const form = random()
        if (form < 0.3) return `${pretty(line)}\n`
        if (form < 0.6) return `- ${line}\n`
        return form < 0.8 ? `${line} ` : `Next:\n${line}\n`
      })
      .join(''),
  }),
  'list without its end': (lines) => ({ text: `[${lines.join(',')}` }),
  // Anywhere, so also inside the first item.
  'cut off': (lines, random) => {
    const text = all(lines)
    return { text: text.slice(0, 1 + Math.floor(random() * (text.length - 1))), finishReason: 'length' }
  },
} as const satisfies Record<string, Damage>

export type DamageName = keyof typeof damages

export const damageNames = Object.keys(damages) as DamageName[]

/** A JSON value as Python prints it. */
function pythonText(value: unknown): string {
  if (typeof value === 'string') return pythonString(value)
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (Array.isArray(value)) return `[${value.map(pythonText).join(', ')}]`
  if (typeof value !== 'object') return String(value)
  const members = Object.entries(value).map(([name, each]) => `${pythonString(name)}: ${pythonText(each)}`)
  return `{${members.join(', ')}}`
}

function pythonString(text: string): string {
  const json = JSON.stringify(text)
  if (text.includes("'") && !text.includes('"')) return json
  return `'${json.slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`
}
