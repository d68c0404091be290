# How every target of this project is compiled.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

# ars_compile(target): language level, warnings and sanitizers.
function(ars_compile target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
    CXX_STANDARD 11 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  # No fused multiply-add: the same seed gives the same bits on every machine and in every build.
  target_compile_options(${target} PRIVATE -Wall -Wextra -ffp-contract=off)
  if(ARS_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(ARS_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${ARS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${ARS_SANITIZE})
  endif()
  if(ARS_LIBFUZZER)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
