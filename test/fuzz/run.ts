// `npm run fuzz`: all targets, or some of them, for a time or a number of inputs. Exits with 1 when a property was violated.
//   npm run fuzz -- --seconds 3600                                    all targets, an hour together
//   npm run fuzz -- --target items --seed 7 --iteration 1234         one input again
import { parseArgs } from 'node:util'
import { type RunReport, runTarget } from './runner.ts'
import { targets } from './targets.ts'

/** Seconds or inputs that are never reached, as numbers that JSON has. */
const unbounded = 1e9

const { values } = parseArgs({
  options: {
    target: { type: 'string', multiple: true, default: Object.keys(targets) },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    seconds: { type: 'string' },
    iterations: { type: 'string' },
    iteration: { type: 'string' },
  },
})
const names = values.target
const unknown = names.filter((name) => !Object.hasOwn(targets, name))
if (unknown.length > 0)
  throw new Error(`no target ${unknown.join(', ')}; there are ${Object.keys(targets).join(', ')}`)
const seed = Number(values.seed)
const seconds = values.seconds === undefined ? unbounded : Number(values.seconds) / names.length
process.stdout.write(`seed ${seed}\n`)

let failed = false
for (const name of names) {
  const { module, iterations, hangMs } = targets[name]!
  const most = values.iterations ?? (values.seconds === undefined ? iterations : unbounded)
  const report = await runTarget({
    name,
    module: new URL(module, import.meta.url).href,
    seed,
    first: Number(values.iteration ?? 0),
    iterations: values.iteration === undefined ? Number(most) : 1,
    seconds,
    ...(hangMs !== undefined && { hangMs, limits: { failMs: hangMs } }),
  })
  process.stdout.write(`${linesOf(report).join('\n')}\n`)
  failed ||= report.failures.length > 0
}
process.exitCode = failed ? 1 : 0

function linesOf({
  name,
  iterations,
  seconds: took,
  slowest,
  largest,
  costly,
  failures,
}: RunReport): string[] {
  const again = (iteration: number) =>
    `npm run fuzz -- --target ${name} --seed ${seed} --iteration ${iteration}`
  const mb = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`
  return [
    `${name}: ${iterations} inputs in ${took.toFixed(1)} s, ${failures.length} kinds of failure; slowest ${slowest.ms.toFixed(0)} ms (${slowest.iteration}), largest ${mb(largest.bytes)} (${largest.iteration})`,
    ...costly
      .slice(0, 10)
      .map((cost) => `  costly: ${cost.ms.toFixed(0)} ms, ${mb(cost.bytes)}: ${again(cost.iteration)}`),
    ...(costly.length > 10 ? [`  and ${costly.length - 10} more over 100 ms or 50 MiB`] : []),
    ...failures.flatMap(({ iteration, message, count }) => [
      `  FAILED ${count} times: ${again(iteration)}`,
      ...message.split('\n').map((line) => `    ${line}`),
    ]),
  ]
}
