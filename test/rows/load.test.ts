import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkRowSchemas, loadRowSchemas } from '../../src/rows/load.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'graphmill-rows-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

let files = 0
async function file(content: unknown, extension = 'json'): Promise<string> {
  const path = join(folder, `${files++}.${extension}`)
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const mill = {
  name: 'mill',
  description: 'Mills',
  fields: [
    { name: 'name', type: 'string', size: 20, primary_key: true, description: 'Its name' },
    { name: 'opened', type: 'integer', required: true },
    { name: 'power', type: 'string', enum: ['water', 'wind'], indexed: true },
  ],
}

describe('row schemas', () => {
  test('load from a file that was read before', async () => {
    const bytes = Buffer.from(JSON.stringify({ mill: JSON.stringify(mill) }))
    expect(await loadRowSchemas([{ path: 'schema.json', bytes }])).toMatchObject([{ name: 'mill' }])
    const broken = { path: 'schema.json', bytes: Buffer.from('{"mill": "{"}') }
    await expect(loadRowSchemas([broken])).rejects.toThrow('schema.json: mill: not JSON')
  })

  test('load from TrustGraph’s form', async () => {
    const [schema] = await loadRowSchemas([await file(mill)])
    expect(schema).toMatchObject({ name: 'mill', description: 'Mills' })
    expect(schema!.fields[0]).toMatchObject({
      name: 'name',
      type: 'string',
      size: 20,
      primaryKey: true,
      required: false,
    })
    expect(schema!.fields[2]).toMatchObject({ enum: ['water', 'wind'], indexed: true })
  })

  test('are given to the prompt in the form of TrustGraph’s prompt', async () => {
    const [schema] = await loadRowSchemas([await file(mill)])
    expect(schema!.term).toEqual({
      name: 'mill',
      description: 'Mills',
      fields: [
        {
          name: 'name',
          type: 'string',
          size: 20,
          primary: true,
          description: 'Its name',
          required: false,
          indexed: false,
        },
        {
          name: 'opened',
          type: 'integer',
          size: 0,
          primary: false,
          description: '',
          required: true,
          indexed: false,
        },
        {
          name: 'power',
          type: 'string',
          size: 0,
          primary: false,
          description: '',
          required: false,
          indexed: true,
          enum_values: ['water', 'wind'],
        },
      ],
    })
  })

  test('load from YAML, from a map of them, and from a map of JSON texts', async () => {
    const yaml = await file('name: river\nfields:\n  - name: length\n    type: double\n', 'yaml')
    const map = await file({
      mill: { fields: [{ name: 'a' }] },
      other: { name: 'named', fields: [{ name: 'b' }] },
    })
    const texts = await file({ parish: JSON.stringify({ fields: [{ name: 'c' }] }) })
    const names = (await loadRowSchemas([yaml, map, texts])).map(({ name }) => name)
    expect(names).toEqual(['river', 'mill', 'named', 'parish'])
  })

  test('load from a folder, in the order of its names', async () => {
    const inner = await mkdtemp(join(folder, 'inner-'))
    await writeFile(join(inner, 'b.json'), JSON.stringify({ ...mill, name: 'b' }))
    await writeFile(join(inner, 'a.yml'), 'name: a\nfields: [{ name: x }]\n')
    await writeFile(join(inner, 'README.md'), 'not a schema')
    expect((await loadRowSchemas([inner])).map(({ name }) => name)).toEqual(['a', 'b'])
  })
})

describe('a broken row schema', () => {
  const fields = (...list: unknown[]) => ({ name: 'mill', fields: list })
  test.each([
    ['no fields', { name: 'mill', fields: [] }, 'fields', 'at least one field'],
    ['no name', { fields: [{ name: 'a' }] }, 'name', 'must be a text'],
    ['a blank name', { name: ' ', fields: [{ name: 'a' }] }, 'name', 'not empty'],
    ['fields that are no list', { name: 'mill', fields: { a: 'string' } }, 'fields', 'must be a list'],
    [
      'a type that is no text',
      fields({ name: 'a', type: { toString: 1 } }),
      'fields[0].type',
      'there is no type',
    ],
    [
      'an allowed value that is no text',
      fields({ name: 'a', type: 'boolean', enum: [{ toString: 1 }] }),
      'fields[0].enum[0]',
      'is no boolean',
    ],
    ['a field that is a text', fields('a'), 'fields[0]', 'a field is an object'],
    ['a field without name', fields({ name: 'a' }, { type: 'string' }), 'fields[1].name', 'must be a text'],
    ['a field twice', fields({ name: 'a' }, { name: 'a' }), 'fields[1].name', 'another field "a"'],
    [
      'a type that there is not',
      fields({ name: 'a', type: 'strng' }),
      'fields[0].type',
      'did you mean "string"',
    ],
    ['a size below zero', fields({ name: 'a', size: -1 }), 'fields[0].size', 'whole number'],
    ['a flag that is a text', fields({ name: 'a', required: 'yes' }), 'fields[0].required', 'true or false'],
    [
      'a slip of the pen',
      fields({ name: 'a', primry_key: true }),
      'fields[0].primry_key',
      'did you mean "primary_key"',
    ],
    ['an enum that is no list', fields({ name: 'a', enum: 'x' }), 'fields[0].enum', 'list of values'],
    [
      'an enum of another type',
      fields({ name: 'a', type: 'int', enum: [1, 'x'] }),
      'fields[0].enum[1]',
      'is no integer',
    ],
    ['a map of a number', { mill: 5 }, 'mill', 'is an object'],
    ['a map of broken JSON', { mill: '{' }, 'mill', 'not JSON'],
  ])('is refused for %s, with its place', async (_, content, at, message) => {
    const path = await file(content)
    const { problems, schemas } = await checkRowSchemas([path])
    expect(schemas).toEqual([])
    expect(problems[0]).toMatchObject({ code: 'row_schema_invalid', file: path, at })
    expect(problems[0]!.message).toContain(message)
    await expect(loadRowSchemas([path])).rejects.toMatchObject({ code: 'row_schema_invalid' })
  })

  test('names the line in YAML, and all problems of all files at once', async () => {
    const yaml = await file(
      'mill:\n  fields:\n    - name: a\n      type: strng\n    - name: b\n      size: x\n',
      'yaml',
    )
    const syntax = await file('mill: [', 'yaml')
    const { problems } = await checkRowSchemas([yaml, syntax, join(folder, 'nowhere.json')])
    expect(problems.map(({ line, at }) => [line, at])).toEqual([
      [4, 'mill.fields[0].type'],
      [6, 'mill.fields[1].size'],
      [1, undefined],
      [undefined, undefined],
    ])
    expect(problems.at(-1)!.message).toMatch(/^cannot be read/)
  })

  test('is refused when another has its name, and none is loaded when one is broken', async () => {
    const [first, second] = [await file(mill), await file(mill)]
    const { problems } = await checkRowSchemas([first, second])
    expect(problems[0]).toMatchObject({
      file: second,
      message: `there is another row schema "mill" in ${first}`,
    })
    await expect(loadRowSchemas([first, await file('[')])).rejects.toMatchObject({
      code: 'row_schema_invalid',
    })
  })
})
