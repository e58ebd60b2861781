/**
 * One connection per event stream and browser. Windows that watch the same stream elect a leader with a lock: it holds
 * the connection and passes every event on. A browser has six connections to a gateway, and each window would take two.
 *
 * Without locks (a page that is not from a secure origin) every window connects by itself.
 */

import { gatewayKey } from "./api.js";

/** Names of channels and locks; they end with a hash of the key, because each tab has its own. */
const PREFIX = "holdfast-stream";

/** @typedef {{ event?: import("./feed.js").Event, state?: string, hello?: boolean }} Message */

export class SharedStream {
  /**
   * @param {string} name of the stream: its address without a cursor
   * @param {{ onEvent: (event: import("./feed.js").Event) => void, onState: (state: any) => void }} handlers of a follower
   */
  constructor(name, handlers) {
    this._name = name;
    this._handlers = handlers;
    this.isLeader = false;
    this._state = "connecting";
    /** @type {import("./feed.js").Event} the position of the stream */
    this._position = { name: "watching", id: "", data: { cursor: "", seq: 0 } };
    /** @type {BroadcastChannel | null} */
    this._channel = null;
  }

  static get isPossible() {
    return Boolean(navigator.locks && globalThis.BroadcastChannel && globalThis.crypto?.subtle);
  }

  /**
   * Wait until this window leads, and run while it does. Meanwhile it follows.
   * @param {AbortSignal} signal
   * @param {() => Promise<void>} lead
   */
  async run(signal, lead) {
    if (!SharedStream.isPossible) return lead();
    const name = `${PREFIX}:${await hashed(gatewayKey.get())}:${this._name}`;
    if (signal.aborted) return undefined;
    const channel = (this._channel = new BroadcastChannel(name));
    channel.onmessage = ({ data }) => this._heard(data);
    // The leader answers with its state and position, so that nothing is missed between a read and the next event.
    channel.postMessage({ hello: true });
    try {
      await navigator.locks.request(name, { signal }, async () => {
        this.isLeader = true;
        await lead();
      });
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      this.isLeader = false;
      channel.close();
      this._channel = null;
    }
    return undefined;
  }

  /** Pass an event on, as the leader. @param {import("./feed.js").Event} event */
  pass(event) {
    const seq = event.data?.seq ?? this._position.data.seq;
    this._position = { name: "watching", id: event.id || this._position.id, data: { cursor: event.id, seq } };
    this._post({ event });
  }

  /** @param {string} state */
  passState(state) {
    this._state = state;
    this._post({ state });
  }

  /** @param {Message} message */
  _post(message) {
    if (this.isLeader) this._channel?.postMessage(message);
  }

  /** @param {Message} message */
  _heard({ event, state, hello }) {
    if (this.isLeader) {
      if (!hello) return;
      this._post({ state: this._state });
      if (this._position.id) this._post({ event: this._position });
      return;
    }
    if (state !== undefined) this._handlers.onState(state);
    if (event !== undefined) this._handlers.onEvent(event);
  }
}

/** @param {string} key */
async function hashed(key) {
  if (!key) return "";
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key));
  return [...new Uint8Array(digest)].slice(0, 12).map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
