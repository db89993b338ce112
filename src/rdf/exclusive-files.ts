// The files of a folder that processes share: one at a time changes a file, by its lock.
import { mkdir, open } from 'node:fs/promises'
import { systemCall } from '../system-calls.ts'
import { wait } from '../wait.ts'
import { type FileLock, lockFile } from './file-lock.ts'
import { failed } from './store.ts'

export interface ExclusiveFiles {
  /** Runs `work` while nothing else changes the file, until it returns true. Throws `store_failed`, and the signal's reason. */
  change(
    path: string,
    work: (lock: FileLock) => Promise<boolean>,
    signal: AbortSignal | undefined,
  ): Promise<void>
  /** Resolves when no change of this process runs. */
  settled(): Promise<void>
}

/** How often a lock that another process has is tried again, in milliseconds. */
const lockPollMs = 20

/** @param lockPatienceMs how long a lock of an unknown owner is watched before it is taken over; see `lockFile` */
export function createExclusiveFiles(folder: string, lockPatienceMs?: number): ExclusiveFiles {
  /** The last change of a file that this process has begun. */
  const turns = new Map<string, Promise<void>>()
  return {
    async change(path, work, signal) {
      const before = turns.get(path)
      const turn = (async () => {
        await before?.catch(() => undefined)
        for (;;) {
          signal?.throwIfAborted()
          await mkdir(folder, { recursive: true })
          const lock = await systemCall(`lock ${path}`, lockFile(`${path}.lock`, lockPatienceMs))
          if (lock)
            try {
              if (await work(lock)) return
            } finally {
              await lock.release()
            }
          else await wait(lockPollMs, signal)
        }
      })()
      turns.set(path, turn)
      try {
        await turn
      } catch (thrown) {
        signal?.throwIfAborted()
        failed(path)(thrown)
      } finally {
        if (turns.get(path) === turn) turns.delete(path)
      }
    },
    async settled() {
      await Promise.allSettled(turns.values())
    },
  }
}

/** A new or renamed file is on the disk when its folder is. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await systemCall(`sync ${folder}`, handle.sync())
  } finally {
    await handle.close()
  }
}
