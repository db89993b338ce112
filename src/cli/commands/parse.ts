// `graphmill parse`: reads a model's reply, or JSON in a stream format, from standard input and prints one JSON object.
import type { Command } from 'commander'
import { decodeText } from '../../documents/read.ts'
import { GraphmillError } from '../../errors.ts'
import { type Format, formats } from '../../formats/format.ts'
import { parseFormat } from '../../formats/read-format.ts'
import { parseReply, type ReplyType } from '../../items/parse.ts'
import { compileSchema } from '../../items/validate.ts'
import { readNamed } from '../named-file.ts'
import { addOptions, choiceOption } from '../options.ts'

export function addParse(command: Command): void {
  addOptions(command, [])
    .addOption(
      choiceOption('--response-type <TYPE>', 'the response type that the model was asked for', [
        'text',
        'json',
        'jsonl',
      ]).default('jsonl'),
    )
    .option('--schema <FILE>', 'JSON Schema of an item, or of the value for json')
    .addOption(
      choiceOption(
        '--format <FORMAT>',
        'read JSON texts in this format instead of a reply',
        formats,
      ).conflicts('responseType'),
    )
    .option(
      '--strict',
      "repair nothing: for a reply, the specification's line parser; for a format, its exact rules",
    )
    .action(async (options: ParseFlags) => {
      process.stdout.write(`${JSON.stringify(await parse(options))}\n`)
    })
}

interface ParseFlags {
  readonly responseType: ReplyType
  readonly format?: Format
  readonly schema?: string
  readonly strict?: boolean
}

async function parse({ responseType, format, schema: path, strict = false }: ParseFlags): Promise<object> {
  const schema = path === undefined ? undefined : compileSchema(await readSchema(path))
  if (format) return parseFormat(format, process.stdin, { strict, ...(schema && { check: schema.check }) })
  const text = decodeText(process.stdin, 'standard input', { lossy: true })
  return parseReply(text, { responseType, schema, strict })
}

async function readSchema(path: string): Promise<Record<string, unknown>> {
  const text = await readNamed(path)
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new GraphmillError('schema_invalid', `${path}: ${(cause as Error).message}.`, { cause })
  }
}
