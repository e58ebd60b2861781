/**
 * Where each row of a long list stands: heights that are guessed until they are measured, and their sums.
 *
 * Sums are kept per run of rows, so that finding a place among 100,000 rows looks at some hundreds of numbers.
 */

const RUN = 256;

export class Heights {
  /** @param {number} guess the height of a row that nobody has measured */
  constructor(guess) {
    this._guess = guess;
    this.count = 0;
    /** @type {number[]} */
    this._sums = [];
    /** @type {(Float64Array | null)[]} heights by run; null: all are guessed. NaN: this one is. */
    this._runs = [];
  }

  /** @param {number} count */
  resize(count) {
    const kept = Math.min(this.count, count);
    this.count = count;
    const runs = Math.ceil(count / RUN);
    this._runs.length = Math.min(this._runs.length, runs);
    while (this._runs.length < runs) this._runs.push(null);
    this._sums.length = runs;
    // The run that was the last one may have been cut off in its middle.
    for (let run = Math.floor(Math.max(0, kept - 1) / RUN); run < runs; run += 1) this._sum(run);
  }

  /** Forget all that was measured. */
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

  /** @param {number} index @param {number} height @returns {number} by how much it differs from before */
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

  /** Return where a row begins. @param {number} index */
  top(index) {
    const run = Math.floor(index / RUN);
    let top = 0;
    for (let each = 0; each < run && each < this._sums.length; each += 1) top += this._sums[each];
    for (let each = run * RUN; each < index && each < this.count; each += 1) top += this.of(each);
    return top;
  }

  /** Return the row at a place. @param {number} place */
  at(place) {
    let top = 0;
    let run = 0;
    while (run < this._sums.length - 1 && top + this._sums[run] <= place) {
      top += this._sums[run];
      run += 1;
    }
    let index = run * RUN;
    while (index < this.count - 1 && top + this.of(index) <= place) {
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
