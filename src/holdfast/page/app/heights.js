/**
 * Row heights of a long list, estimated until measured, and their offsets.
 *
 * Sums are stored per run of rows, so that a lookup among 100,000 rows reads some hundreds of numbers.
 */

const RUN = 256;

export class Heights {
  /** @param {number} guess estimated height of a row */
  constructor(guess) {
    this._guess = guess;
    this.count = 0;
    /** @type {number[]} */
    this._sums = [];
    /** @type {(Float64Array | null)[]} heights by run; null: all estimated. NaN: this one is. */
    this._runs = [];
  }

  /** @param {number} count */
  resize(count) {
    const unchanged = Math.min(this.count, count);
    this.count = count;
    const runs = Math.ceil(count / RUN);
    this._runs.length = Math.min(this._runs.length, runs);
    while (this._runs.length < runs) this._runs.push(null);
    this._sums.length = runs;
    // The last run may have been partial.
    for (let run = Math.floor(Math.max(0, unchanged - 1) / RUN); run < runs; run += 1) this._sum(run);
  }

  /** Discard all measurements. */
  forget() {
    const { count } = this;
    this.resize(0);
    this.resize(count);
  }

  get total() {
    return this._sums.reduce((sum, one) => sum + one, 0);
  }

  /** @param {number} index */
  of(index) {
    const measured = this._runs[Math.floor(index / RUN)]?.[index % RUN];
    return measured === undefined || Number.isNaN(measured) ? this._guess : measured;
  }

  /** @param {number} index @param {number} height @returns {number} the difference to the previous height */
  set(index, height) {
    const run = Math.floor(index / RUN);
    const before = this.of(index);
    if (before === height) return 0;
    let known = this._runs[run];
    if (!known) known = this._runs[run] = new Float64Array(RUN).fill(NaN);
    known[index % RUN] = height;
    this._sums[run] += height - before;
    return height - before;
  }

  /** Return the offset of a row. @param {number} index */
  top(index) {
    const run = Math.floor(index / RUN);
    let top = 0;
    for (let each = 0; each < run && each < this._sums.length; each += 1) top += this._sums[each];
    for (let each = run * RUN; each < index && each < this.count; each += 1) top += this.of(each);
    return top;
  }

  /** Return the row at an offset. @param {number} offset */
  at(offset) {
    let top = 0;
    let run = 0;
    while (run < this._sums.length - 1 && top + this._sums[run] <= offset) {
      top += this._sums[run];
      run += 1;
    }
    let index = run * RUN;
    while (index < this.count - 1 && top + this.of(index) <= offset) {
      top += this.of(index);
      index += 1;
    }
    return Math.max(0, Math.min(index, this.count - 1));
  }

  /** @param {number} run */
  _sum(run) {
    let sum = 0;
    for (let index = run * RUN; index < Math.min((run + 1) * RUN, this.count); index += 1) sum += this.of(index);
    this._sums[run] = sum;
  }
}
