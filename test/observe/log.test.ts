import { execFile } from 'node:child_process'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'

const at = (path: string) => JSON.stringify(pathToFileURL(path).href)
const start = `import { createLogger } from ${at('src/observe/log.ts')}; import { GraphmillError } from ${at('src/errors.ts')};`

/** What a process logs that runs this code with a logger `log`. */
const logged = (code: string, level = 'info') =>
  new Promise<Record<string, unknown>[]>((resolve, reject) => {
    const script = `${start} const log = createLogger('${level}'); ${code}`
    execFile(process.execPath, ['--input-type=module', '-e', script], (error, stdout, stderr) => {
      if (error || stdout !== '') return reject(error ?? new Error(`on standard output: ${stdout}`))
      const lines = stderr.split('\n').filter((line) => line.startsWith('{'))
      resolve(lines.map((line) => JSON.parse(line) as Record<string, unknown>))
    })
  })

test('a line is one JSON object on standard error: time, level, fields and a constant phrase', async () => {
  const [line] = await logged(
    `log.child({ processor: 'prompt' }).info({ messageId: 'm' }, 'reply published')`,
  )
  expect(line).toEqual({
    level: 30,
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    processor: 'prompt',
    messageId: 'm',
    msg: 'reply published',
  })
})

test('a coded error has code, message, remedy, cause and details, and no stack', async () => {
  const thrown = `new GraphmillError('llm_unavailable', 'It is away.', { cause: new Error('refused'), details: { status: 503 } })`
  const [line] = await logged(`log.warn({ err: ${thrown} }, 'waiting')`)
  expect(line!['err']).toEqual({
    code: 'llm_unavailable',
    message: 'It is away.',
    remedy: expect.stringMatching(/^Check that the model server/),
    cause: 'refused',
    status: 503,
  })
})

test('a defect has its stack', async () => {
  const thrown = `new GraphmillError('unexpected', 'x is not a function', { cause: new TypeError('x is not a function') })`
  const [line] = await logged(`log.error({ err: ${thrown} }, 'message is dead')`)
  expect(line!['err']).toMatchObject({ code: 'unexpected', stack: expect.stringContaining('TypeError') })
})

test('lines below the level are not written', async () => {
  expect(await logged(`log.info('x'); log.warn('y')`, 'warn')).toMatchObject([{ msg: 'y' }])
})

test('a line shows no secret, wherever it is in the line, and stays one JSON object', async () => {
  const [line] = await logged(`
    const { keepSecret } = await import(${at('src/redact.ts')});
    keepSecret('sk-"quoted"/and\\\\long', 'test');
    const secret = 'sk-"quoted"/and\\\\long';
    log.child({ bound: secret }).warn({ err: new Error(secret), deep: { list: [encodeURIComponent(secret)] } }, 'said ' + secret)`)
  expect(line).toMatchObject({ bound: '[secret]', deep: { list: ['[secret]'] }, msg: 'said [secret]' })
  expect((line!['err'] as { message: string }).message).toBe('[secret]')
  expect(JSON.stringify(line)).not.toMatch(/quoted|long/)
})
