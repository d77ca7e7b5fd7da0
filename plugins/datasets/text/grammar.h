// SPDX-License-Identifier: MIT
// A text of sentences from a small grammar, for which the best possible prediction is known:
//
//   line   = clause {" and " clause} ".\n", with a capital at its beginning
//   clause = phrase " " verb " " phrase
//   phrase = determiner " " [adjective " "] noun [" " preposition " " phrase]
//
// A phrase is singular or plural, and a verb agrees with its clause's first noun, however far away it is: "The big cats
// near a dog see some birds." Each line can be derived in only one way, so the entropy of lines is that of the choices
// in them.
#pragma once

#include <ddprun/random.h>

#include <string>

namespace ddprun::text {

// Appends one line. Returns the surprisal of its choices: minus the logarithm of its probability, in nats.
double append_line(std::string& text, RandomStream& random);

// Returns the entropy per character in nats, given all characters before it. Its exponential is a lower bound on any
// model's perplexity on a long text.
double nats_per_character();

}  // namespace ddprun::text
