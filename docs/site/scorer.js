/* How the site's search ranks pages: Sphinx's numbers, and guides before what changes the engine. */
const FIRST = /^docs\/(guide\/|tutorial|auto|logistic)/;
const LAST = /^(docs\/(architecture|asysg|cache|exchange|gallery|latency|master|performance|psp|ranks|write_)|[A-Z])/;

var Scorer = {
  score: ([page, title, anchor, descr, score]) =>
    score + (FIRST.test(page) ? 4 : LAST.test(page) ? -3 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
