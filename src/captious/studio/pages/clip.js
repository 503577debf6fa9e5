// Playing of clips and of their events: what rating pages and the explorer share.
// @ts-check

const clips = (() => {
  // The part that a clip plays at the moment; without one it plays on to its end.
  /** @type {WeakMap<HTMLVideoElement, { start: number, end: number, again: () => boolean }>} */
  const parts = new WeakMap();

  /** @param {HTMLVideoElement} clip */
  function stopAtEnd(clip) {
    const part = parts.get(clip);
    if (!part) return;
    if (clip.currentTime >= part.end - 0.005 || clip.ended) {
      if (part.again()) {
        clip.currentTime = part.start;
        if (clip.paused) void clip.play().catch(() => {});
      } else {
        parts.delete(clip);
        clip.pause();
      }
    }
  }

  // Time updates come four times a second, which is too coarse for a short event; frames come more often.
  /** @param {HTMLVideoElement} clip */
  function follow(clip) {
    stopAtEnd(clip);
    if (!clip.paused && parts.has(clip)) requestAnimationFrame(() => follow(clip));
  }

  // One plays at a time.
  document.addEventListener("play", (event) => {
    for (const other of /** @type {NodeListOf<HTMLMediaElement>} */ (document.querySelectorAll("audio, video"))) {
      if (other !== event.target) other.pause();
    }
    if (event.target instanceof HTMLVideoElement) follow(event.target);
  }, true);
  document.addEventListener("timeupdate", (event) => event.target instanceof HTMLVideoElement && stopAtEnd(event.target), true);
  // Whoever moves to another place wants to see what is there.
  document.addEventListener("seeking", (event) => {
    const clip = event.target, part = clip instanceof HTMLVideoElement && parts.get(clip);
    if (part && (clip.currentTime < part.start - 0.05 || clip.currentTime > part.end + 0.05)) parts.delete(clip);
  }, true);

  return {
    /** Play from start to end and stop, or begin again while `again` says so.
     * @param {HTMLVideoElement} clip @param {number} start @param {number} end */
    playPart(clip, start, end, again = () => false) {
      parts.delete(clip);
      clip.currentTime = start;
      parts.set(clip, { start, end, again });
      if (clip.paused) void clip.play().catch(() => clip.focus());
      else follow(clip);
    },

    /** @param {HTMLMediaElement | null | undefined} player */
    toggle(player) {
      if (player?.paused) void player.play().catch(() => player.focus());
      else player?.pause();
    },

    /** Call `tell` once if the browser does not play the clip, or plays only its sound. @param {HTMLVideoElement} clip @param {() => void} tell */
    whenUnplayable(clip, tell) {
      const once = () => { const first = tell; tell = () => {}; first(); };
      clip.addEventListener("error", once);
      clip.addEventListener("loadedmetadata", () => { if (!clip.videoWidth) once(); });
      if (clip.error || (clip.readyState > 0 && !clip.videoWidth)) once();
    },

    /** Whether a clip was played from start to end; a tenth of a short part may be missing, since time is measured coarsely.
     * @param {HTMLVideoElement} clip @param {number} start @param {number} end */
    wasPlayed(clip, start, end) {
      let seconds = 0;
      for (let place = 0; place < clip.played.length; place += 1) {
        seconds += Math.max(0, Math.min(end, clip.played.end(place)) - Math.max(start, clip.played.start(place)));
      }
      return seconds >= end - start - Math.min(1, (end - start) / 10);
    },

    /** Minutes and seconds, with tenths in clips of less than 20 seconds. @param {number} seconds @param {number} length */
    time(seconds, length) {
      const digits = length < 20 ? 1 : 0, whole = Number(seconds.toFixed(digits)), minutes = Math.floor(whole / 60);
      return `${minutes}:${(whole - 60 * minutes).toFixed(digits).padStart(digits ? 4 : 2, "0")}`;
    },
  };
})();
