#!/usr/bin/env node
// Starts graphmill, with small sizes of V8 (docs/operations.md, "Memory"). This is plain JavaScript that Node 18 and later can parse. On a
// Node that is too old, it runs itself again with the `node` package of node_modules if that is installed, else it says which Node it
// needs. As the first process of a container, it runs itself again too: Linux does not let PID 1 end itself by a signal, so neither the
// watchdog nor the end of the grace period could end it. The child process ends with its parent, even if the parent is killed, because the
// channel between them closes.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const needed = [22, 18]
const [major, minor] = process.versions.node.split('.').map(Number)
const program = fileURLToPath(new URL('../dist/src/cli/main.js', import.meta.url))

// V8 reads its sizes only when it starts: the commands that handle documents replace their process. The user's own sizes win.
// `load` has few objects and large buffers, which are freed when young objects are collected: the smaller, the sooner.
const [semiSpace, growth] = process.argv[2] === 'load' ? [2, 60] : [4, 100]
// Threads that sweep pages and free buffers beside the main thread take 8% more CPU in total, so the main thread does it.
const sizes = [
  `--max-semi-space-size=${semiSpace}`,
  `--heap-growing-percent=${growth}`,
  '--no-concurrent-sweeping',
]
const sized = ['run', 'load', 'extract'].includes(process.argv[2]) && !/semi[-_]space/.test(ownFlags())
// Buffers of 64 KiB and more are returned to the system when they are freed, instead of leaving holes.
const malloc = { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '65536', MALLOC_TRIM_THRESHOLD_: '65536' }
const flags = [...(sized ? sizes : []), ...process.execArgv]
const environment = sized ? { ...malloc, ...process.env } : process.env

const isNew = major > needed[0] || (major === needed[0] && minor >= needed[1])
const isChild = Boolean(process.env.GRAPHMILL_NODE_TRIED)

if (isNew && (isChild || process.pid !== 1)) {
  if (isChild) endWithParent()
  // A debugger, or a parent with a channel, would lose the process.
  if (sized && process.execve && !process.channel && !/--inspect/.test(ownFlags()))
    process.execve(process.execPath, [process.argv0, ...flags, ...process.argv.slice(1)], environment)
  if (existsSync(program)) await import('../dist/src/cli/main.js')
  else fail('graphmill is not built yet: run `npm run build` first.')
} else {
  const node = isNew ? process.execPath : findNode()
  if (node === undefined || isChild) {
    fail(`graphmill needs Node ${needed.join('.')} or newer; this is ${process.versions.node}.${advice()}`)
  } else {
    const passed = isNew ? flags : sized ? sizes : []
    const child = spawn(node, [...passed, ...process.argv.slice(1)], {
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
      env: { ...environment, GRAPHMILL_NODE_TRIED: '1' },
    })
    // Ctrl-C in a terminal also reaches the child directly; the child treats two signals at once as one.
    const pass = (signal) => child.kill(signal)
    const heard = ['SIGINT', 'SIGTERM', 'SIGHUP']
    for (const signal of heard) process.on(signal, pass)
    child.on('error', (error) => fail(`graphmill needs Node ${needed.join('.')} or newer: ${error.message}`))
    child.on('exit', (code, signal) => {
      if (!signal) process.exit(code)
      // End in the same way as the child; PID 1 uses the exit code that a shell would.
      process.exitCode = 128 + constants.signals[signal]
      for (const each of heard) process.off(each, pass)
      process.kill(process.pid, signal)
    })
  }
}

/** Node's flags for this process. */
function ownFlags() {
  return [...process.execArgv, process.env.NODE_OPTIONS].join(' ')
}

/** A parent ends before its child only if it was killed. The child then ends too. */
function endWithParent() {
  const end = () => process.kill(process.pid, 'SIGKILL')
  // A child of another program may have the variable but no channel.
  if (process.connected === undefined) return
  if (!process.connected) return end()
  process.once('disconnect', end)
  // Without this, the listener would keep the process running.
  process.channel.unref()
}

function nodePackage() {
  try {
    return dirname(createRequire(import.meta.url).resolve('node/package.json'))
  } catch {
    return undefined
  }
}

function findNode() {
  const folder = nodePackage()
  return folder && [join(folder, 'bin', 'node'), join(folder, 'bin', 'node.exe')].find(existsSync)
}

/** The package gets its program by a script, which `npm ci --ignore-scripts` does not run. */
function advice() {
  return nodePackage() && !findNode() ? ' Run `npm rebuild node` to install one in node_modules.' : ''
}

function fail(sentence) {
  console.error(sentence)
  process.exitCode = 1
}
