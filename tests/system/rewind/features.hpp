// features.hpp: kinds of state that a try of a loop may leave behind. Each is a class without objects: step(x) changes its state
// and returns a number that depends on it; reset() makes it as it was when the program began. The parameters are the program's
// number, so that no two programs share a state, and two small numbers that vary what is done.
#ifndef REWIND_FEATURES_HPP
#define REWIND_FEATURES_HPP

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "hash.h"

namespace rewind_test {

struct hash {
    uint64_t word;
    explicit hash(uint64_t seed) : word(seed) {}
    hash &add(double value) {
        word = hash_add(word, value);
        return *this;
    }
    hash &add(const std::string &text) {
        for (char letter : text) word = hash_word(word, static_cast<unsigned char>(letter));
        return *this;
    }
    double unit() const { return hash_unit(word); }
};

// ---- memory that was there when the program began -----------------------------------------------------------------------

template <int Id, int A, int B> struct globals {
    static long count;
    static double table[3000]; // .data, some pages
    static unsigned char bss[1 << 20];
    static double step(double x) {
        count++;
        table[count * (2 * A + 1) % 3000] += x;
        bss[count * 7919 * B % static_cast<long>(sizeof bss)]++;
        return hash(Id)
            .add(table[count * 11 % 3000])
            .add(bss[(count - 1) * 7919 * B % static_cast<long>(sizeof bss)])
            .unit();
    }
    static void reset() {
        for (long i = 0; i <= count; i++) bss[i * 7919 * B % static_cast<long>(sizeof bss)] = 0;
        for (double &cell : table) cell = 0;
        table[7] = count = 0;
    }
};
template <int Id, int A, int B> long globals<Id, A, B>::count;
template <int Id, int A, int B> double globals<Id, A, B>::table[3000] = {0.5, 0.25};
template <int Id, int A, int B> unsigned char globals<Id, A, B>::bss[1 << 20];

template <int Id, int A, int B> struct thread_locals {
    static thread_local unsigned long count;
    static thread_local double recent[700];
    static double step(double x) {
        recent[++count % 700] = x;
        return hash(Id + A).add(static_cast<double>(count)).add(recent[(count * B + 1) % 700]).unit();
    }
    static void reset() {
        for (double &cell : recent) cell = 0;
        count = 0;
    }
};
template <int Id, int A, int B> thread_local unsigned long thread_locals<Id, A, B>::count;
template <int Id, int A, int B> thread_local double thread_locals<Id, A, B>::recent[700];

template <int Id, int A, int B> struct bit_fields {
    struct packed {
        unsigned low : 3, middle : 7, high : 11;
        signed sign : 5;
        unsigned long long wide : 37;
    };
    static packed bits;
    static double step(double x) {
        bits.low += A % 7 + 1;
        bits.middle += bits.low * B + 1;
        bits.high ^= bits.middle + static_cast<unsigned>(x * 1000);
        bits.sign = static_cast<signed>(bits.high % 31) - 15;
        bits.wide = bits.wide * 37 + bits.high;
        return hash(Id)
            .add(bits.low)
            .add(bits.middle)
            .add(bits.high)
            .add(bits.sign)
            .add(static_cast<double>(bits.wide))
            .unit();
    }
    static void reset() { bits = packed(); }
};
template <int Id, int A, int B> typename bit_fields<Id, A, B>::packed bit_fields<Id, A, B>::bits;

template <int Id, int A, int B> struct function_pointers {
    typedef double (*function)(double);
    static double up(double x) { return x + 0.125 * A; }
    static double down(double x) { return x - 0.0625 * B; }
    static double twist(double x) { return hash(Id).add(x).unit(); }
    static function table[3];
    static double step(double x) {
        double found = table[0](table[1](x));
        std::swap(table[0], table[found > 0.5 ? 1 : 2]);
        return hash(Id).add(found).unit();
    }
    static void reset() { table[0] = up, table[1] = twist, table[2] = down; }
};
template <int Id, int A, int B>
typename function_pointers<Id, A, B>::function function_pointers<Id, A, B>::table[3] = {up, twist, down};

// A local object is made in the first try that comes by: in the main run or in a continuation.
template <int Id, int A, int B> struct static_locals {
    static unsigned long count;
    static bool there;
    static size_t size() {
        there = true;
        return 20 + A;
    }
    static std::vector<double> &book() {
        static std::vector<double> made(size(), 0.5);
        return made;
    }
    static double step(double x) {
        double said = 0.5;
        if (count % 3 == 2 || x > 0.7) {
            std::vector<double> &pages = book();
            pages[count % pages.size()] += x;
            said = hash(Id).add(pages[count * B % pages.size()]).unit();
        }
        count++;
        return said;
    }
    static void reset() {
        count = 0;
        if (there)
            for (double &cell : book()) cell = 0.5;
    }
};
template <int Id, int A, int B> unsigned long static_locals<Id, A, B>::count;
template <int Id, int A, int B> bool static_locals<Id, A, B>::there;

// ---- containers ---------------------------------------------------------------------------------------------------------

template <int Id, int A, int B> struct maps {
    static std::map<int, std::string> book;
    static std::unordered_map<std::string, double> index;
    static unsigned count;
    static double step(double x) {
        count++;
        book[static_cast<int>(count * A % 53)] = std::string(5 + count % 90, static_cast<char>('a' + count % 26));
        index["key " + std::to_string(count % (20 + B))] += x;
        if (count % 7 == 0 && !book.empty()) book.erase(book.begin());
        if (count % 40 == 0) index.clear();
        return hash(Id).add(book.rbegin()->second).add(static_cast<double>(index.size())).add(index["key 3"]).unit();
    }
    static void reset() {
        book.clear();
        index = std::unordered_map<std::string, double>();
        count = 0;
    }
};
template <int Id, int A, int B> std::map<int, std::string> maps<Id, A, B>::book;
template <int Id, int A, int B> std::unordered_map<std::string, double> maps<Id, A, B>::index;
template <int Id, int A, int B> unsigned maps<Id, A, B>::count;

template <int Id, int A, int B> struct sequences {
    static std::vector<double> history;
    static std::deque<int> queue;
    static std::string text;
    static double step(double x) {
        history.push_back(x);
        if (history.size() > 300u + static_cast<unsigned>(A)) std::vector<double>().swap(history);
        queue.push_front(static_cast<int>(x * 1e6));
        if (queue.size() > 10u * B) queue.resize(queue.size() / 2);
        text += static_cast<char>('a' + queue.front() % 26);
        if (text.size() > 2000) text.clear();
        return hash(Id).add(history.empty() ? 0.5 : history[history.size() / 2]).add(queue.back()).add(text).unit();
    }
    static void reset() {
        std::vector<double>().swap(history);
        std::deque<int>().swap(queue);
        std::string().swap(text);
    }
};
template <int Id, int A, int B> std::vector<double> sequences<Id, A, B>::history;
template <int Id, int A, int B> std::deque<int> sequences<Id, A, B>::queue;
template <int Id, int A, int B> std::string sequences<Id, A, B>::text;

// Objects with virtual functions, shared by counted pointers: counts, lists and the heap change in step.
template <int Id, int A, int B> struct shared_pointers {
    struct particle {
        std::shared_ptr<particle> parent;
        double energy;
        explicit particle(double e) : energy(e) {}
        virtual ~particle() { dead++; }
        virtual double value() const { return energy; }
    };
    struct heavy : particle {
        double ballast[30];
        explicit heavy(double e) : particle(e) { ballast[7] = 0.5 * e; }
        double value() const override { return this->energy + ballast[7]; }
    };
    static std::shared_ptr<particle> newest;
    static std::weak_ptr<particle> watched;
    static std::function<double(double)> act;
    static unsigned made, dead;
    static double step(double x) {
        std::shared_ptr<particle> next =
            made % 3 ? std::make_shared<particle>(x) : std::shared_ptr<particle>(new heavy(x));
        next->parent = made % (5u + A) ? newest : nullptr; // else the whole line goes
        newest = next;
        if (made++ % B == 0) watched = newest;
        double scale = x;
        act = [scale](double y) { return y * scale; };
        std::shared_ptr<particle> seen = watched.lock();
        double many = static_cast<double>(newest.use_count()) + dead;
        return hash(Id).add(many).add(seen ? seen->value() : 0.0).add(act(newest->value())).unit();
    }
    static void reset() {
        newest.reset();
        watched.reset();
        act = nullptr;
        made = dead = 0;
    }
};
template <int Id, int A, int B>
std::shared_ptr<typename shared_pointers<Id, A, B>::particle> shared_pointers<Id, A, B>::newest;
template <int Id, int A, int B>
std::weak_ptr<typename shared_pointers<Id, A, B>::particle> shared_pointers<Id, A, B>::watched;
template <int Id, int A, int B> std::function<double(double)> shared_pointers<Id, A, B>::act;
template <int Id, int A, int B> unsigned shared_pointers<Id, A, B>::made;
template <int Id, int A, int B> unsigned shared_pointers<Id, A, B>::dead;

// ---- control flow -------------------------------------------------------------------------------------------------------

template <int Id, int A, int B> struct exceptions {
    static unsigned count;
    struct odd : std::runtime_error {
        double carried;
        explicit odd(double x) : std::runtime_error("odd number of " + std::to_string(count)), carried(x) {}
    };
    static double thrower(double x, int depth) {
        if (depth > 0) return thrower(x * 0.75, depth - 1) + 1;
        if (count % 2) throw odd(x);
        if (count % 5 == 0) throw static_cast<int>(count);
        return x;
    }
    static double step(double x) {
        count += 1 + A % 3;
        try {
            try {
                return hash(Id).add(thrower(x, B % 12)).unit();
            } catch (int number) {
                throw odd(number);
            }
        } catch (const odd &caught) {
            return hash(Id).add(caught.carried).add(caught.what()).unit();
        }
    }
    static void reset() { count = 0; }
};
template <int Id, int A, int B> unsigned exceptions<Id, A, B>::count;

// A generator of the simulator's own, and those of the C library.
template <int Id, int A, int B> struct generators {
    static std::mt19937 engine;
    static unsigned short words[3];
    static double step(double x) {
        double own = std::uniform_real_distribution<double>(0, 1)(engine);
        return hash(Id).add(own).add(rand()).add(static_cast<double>(random())).add(erand48(words)).add(x * A).unit();
    }
    static void reset() {
        engine.seed(static_cast<unsigned>(A));
        srand(static_cast<unsigned>(B));
        words[0] = words[1] = words[2] = static_cast<unsigned short>(Id);
    }
};
template <int Id, int A, int B> std::mt19937 generators<Id, A, B>::engine(A);
template <int Id, int A, int B> unsigned short generators<Id, A, B>::words[3] = {Id, Id, Id};

// Output: into the buffer of stdout, and into memory.
template <int Id, int A, int B> struct printing {
    static unsigned count;
    static std::ostringstream stream;
    static double step(double x) {
        if (++count % (3u + A % 5) == 0) printf("program %d, step %u, %.3f\n", Id, count, x);
        stream << count << ' ' << x << '\n';
        if (count % (10u + B) == 0) stream.str("");
        return hash(Id).add(stream.str()).unit();
    }
    static void reset() {
        count = 0;
        stream.str("");
    }
};
template <int Id, int A, int B> unsigned printing<Id, A, B>::count;
template <int Id, int A, int B> std::ostringstream printing<Id, A, B>::stream;

} // namespace rewind_test

#endif
