// What another process has taken so far, by Linux's count.
import { readFileSync } from 'node:fs'

/** CPU time in seconds as Linux counts it; NaN on other systems. */
export function cpuOf(pid: number): number {
  const ticksPerSecond = 100
  const fields = procFile(pid, 'stat').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}

/** The peak of resident memory in MiB as Linux counts it; NaN on other systems. */
export const peakOf = (pid: number) => memoryOf(pid, 'VmHWM')

/** Its resident memory (`VmRSS`), or the most so far (`VmHWM`), in MiB; NaN on other systems. */
export function memoryOf(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(procFile(pid, 'status'))?.[1]) / 1024
}

/** Its share of the resident memory in MiB: a page that several processes have counts once for all of them. NaN on other systems. */
export const shareOf = (pid: number) =>
  Number(/^Pss:\s+(\d+)/m.exec(procFile(pid, 'smaps_rollup'))?.[1]) / 1024

function procFile(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return ''
  }
}
